"""Modules whose calls replay HPU graphs: `wrap_in_hpu_graph` for inference, `make_graphed_callables` and `ModuleCacher`
for training.

A call is told from others by the shapes of its tensors and its other arguments; each kind of call has a graph.
Arguments are copied to the graph's memory, and results from it, so that they outlive the next replay.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from habana_tf.torch.device.graphs import HPUGraph, graph, is_current_stream_capturing
from habana_tf.torch.device.own_graphs import CachedParams, copy_to, input_hash
from habana_tf.torch.record import current
from habana_tf.torch.record.nested import tensors

__all__ = [
    "CachedParams", "HPUGraph", "ModuleCacher", "copy_to", "graph", "input_hash", "is_current_stream_capturing",
    "make_graphed_callables", "wrap_in_hpu_graph", "wrap_in_hpu_graph_func",
]  # fmt: skip


def _key(leaves: Sequence[Any], spec: Any, training: bool) -> Hashable | None:
    """What calls of one graph have in common; None of a call that can have none: one with tensors of other devices, or
    with an object of the program's own, which may hold tensors and change, as a cache of keys and values does."""
    parts: list[Any] = [str(spec), training, torch.is_autocast_enabled("hpu")]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if leaf.device.type != "hpu":
                return None
            parts.append((leaf.shape, leaf.dtype, leaf.requires_grad))
        elif type(leaf).__hash__ is object.__hash__ and hasattr(leaf, "__dict__"):
            return None
        else:
            parts.append((type(leaf), leaf))
    try:
        hash(key := tuple(parts))
    except TypeError:
        return None
    return key


class _State:
    """The parameters and buffers of a module that a graph reads: their memory is part of it."""

    def __init__(self, module: torch.nn.Module | None) -> None:
        modules = [] if module is None else module.modules()
        self._known = [
            (held, name, t, t.data_ptr())
            for m in modules for held in (m._parameters, m._buffers) for name, t in held.items() if t is not None
        ]  # fmt: skip

    @property
    def moved(self) -> bool:
        """Whether one is in other memory, or another one is in its place."""
        return any(held.get(name) is not t or t.data_ptr() != address for held, name, t, address in self._known)


@dataclass
class _Inference:
    """The graph of one kind of call, its inputs, its results and their structure, and what it reads of its module."""

    graph: HPUGraph
    inputs: list[torch.Tensor]
    outputs: list[Any]
    spec: Any
    state: _State

    @classmethod
    def of(
        cls, forward: Callable[..., Any], module: torch.nn.Module | None, leaves: Sequence[Any], spec: Any
    ) -> _Inference:
        """Captures a call, which runs at its first replay only: else what it counts would be counted twice."""
        static = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(static, spec)
        captured = HPUGraph()
        with graph(captured, dry_run=True):
            made = forward(*args, **kwargs)
        outputs, structure = pytree.tree_flatten(made)
        return cls(captured, list(tensors(static)), outputs, structure, _State(module))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        for static, given in zip(self.inputs, tensors(leaves), strict=True):
            static.copy_(given)
        self.graph.replay()
        copies = [o.clone() if isinstance(o, torch.Tensor) else o for o in self.outputs]
        return pytree.tree_unflatten(copies, self.spec)


def wrap_in_hpu_graph_func(
    func: Callable[..., Any], asynchronous: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
    max_graphs: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function whose calls replay graphs, without gradients. The first call of a kind captures its graph; calls with
    tensors of other devices or objects that may hold tensors, and those of more than `max_graphs` kinds, run as before.
    asynchronous, disable_tensor_cache and dry_run change nothing here: nothing is ever under way, no copies are kept,
    and a capture is never run."""
    replaying = _Replaying(func, None, max_graphs)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return replaying(*args, **kwargs)

    call.clear_cache = replaying.clear_cache  # type: ignore[attr-defined]
    return call


class _Forward:
    """What a module has in place of its `forward`, which is `original`: it replays graphs, at most `max_graphs`.

    Graphs are on the memory of their module's weights, so a copy of the module, or one that is loaded, has a `forward`
    of its own, which captures anew. Its name, documentation and signature are those of `original`: libraries decide by
    `inspect.signature(model.forward)` what a model takes.
    """

    def __init__(
        self, original: Callable[..., Any], module: torch.nn.Module | None, max_graphs: int | None, *options: Any
    ) -> None:  # fmt: skip
        functools.update_wrapper(cast(Any, self), original)
        self.original, self.module, self.max_graphs, self.options = original, module, max_graphs, options
        self.known: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.original, self.module, self.max_graphs, *self.options)

    def has_room(self, key: Hashable | None) -> bool:
        """Whether a call has a graph, or may have one. Forgets that of weights which are elsewhere now."""
        if key in self.known and self.known[key].state.moved:
            del self.known[key]
        return key is not None and (key in self.known or self.max_graphs is None or len(self.known) < self.max_graphs)

    def clear_cache(self) -> None:
        """Forgets the graphs."""
        self.known.clear()


class _Replaying(_Forward):
    """See `wrap_in_hpu_graph_func`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = _key(leaves, spec, self.module is not None and self.module.training)
        with torch.no_grad():
            if not self.has_room(key):
                return self.original(*args, **kwargs)
            if key not in self.known:
                self.known[key] = _Inference.of(self.original, self.module, leaves, spec)
            return self.known[key](leaves)


def wrap_in_hpu_graph(
    module: torch.nn.Module, asynchronous: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
    max_graphs: int | None = None,
) -> torch.nn.Module:  # fmt: skip
    """The module itself, whose calls replay graphs from now on, without gradients. See `wrap_in_hpu_graph_func`; calls
    in training and in evaluation have graphs of their own, and weights that are replaced or moved are captured again.
    Its method `clear_cache` forgets the graphs. Raises RuntimeError at the first call in eager mode."""
    forward = _Replaying(module.forward, module, max_graphs)
    module.forward = forward
    module.clear_cache = module.clear_inputs = forward.clear_cache
    return module


class _Training:
    """Forward and backward of one kind of call as two graphs, which autograd sees as one function."""

    def __init__(
        self, forward: Callable[..., Any], module: torch.nn.Module | None, leaves: Sequence[Any], spec: Any,
        warmups: int, allow_unused: bool,
    ) -> None:  # fmt: skip
        parameters = () if module is None else tuple(module.parameters())
        self.spec = spec
        self.static = [
            leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in leaves
        ]
        self.inputs = list(tensors(self.static))
        self.surface = (*self.inputs, *parameters)
        self.wanted = [t for t in self.surface if t.requires_grad]
        self.allow_unused = allow_unused
        self.fwd, self.bwd = HPUGraph(), HPUGraph()
        current.recorder().flush()
        for _ in range(warmups):
            self._backward(self._forward(forward), None)
        with graph(self.fwd, dry_run=True):
            outputs = self._forward(forward)
        self.outputs = outputs
        self.gradients_of = [torch.zeros_like(o) for o in tensors(outputs) if o.requires_grad]
        with graph(self.bwd, dry_run=True):
            self.grads = self._backward(outputs, self.gradients_of)
        self.function = self._function()
        self.state = _State(module)

    def _forward(self, forward: Callable[..., Any]) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(self.static, self.spec)
        outputs, self.structure = pytree.tree_flatten(forward(*args, **kwargs))
        return outputs

    def _backward(self, outputs: Sequence[Any], given: Sequence[torch.Tensor] | None) -> Sequence[Any]:
        differentiable = [o for o in tensors(outputs) if o.requires_grad]
        if not differentiable or not self.wanted:
            return ()
        given = [torch.zeros_like(o) for o in differentiable] if given is None else given
        return torch.autograd.grad(differentiable, self.wanted, given, allow_unused=self.allow_unused)

    def _function(self) -> Any:
        owner = self
        with_grad = [o.requires_grad for o in tensors(self.outputs)]

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
                for static, tensor in zip(owner.inputs, given, strict=False):
                    static.detach().copy_(tensor)
                owner.fwd.replay()
                made = tuple(o.detach().clone() for o in tensors(owner.outputs))
                ctx.mark_non_differentiable(*(m for m, grad in zip(made, with_grad, strict=True) if not grad))
                return made

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
                if torch.is_grad_enabled():
                    raise RuntimeError(
                        "a graphed callable has no second derivative, as its backward pass is replayed: call what it "
                        "is made of where create_graph=True"
                    )
                due = [g for g, grad in zip(grads, with_grad, strict=True) if grad]
                for static, g in zip(owner.gradients_of, due, strict=True):
                    static.copy_(g)
                owner.bwd.replay()
                ready = iter(owner.grads)
                found = [next(ready) if t.requires_grad else None for t in owner.surface]
                return tuple(None if g is None else g.detach().clone() for g in found)

        return Graphed

    def __call__(self, leaves: Sequence[Any]) -> Any:
        made = iter(self.function.apply(*tensors(leaves), *self.surface[len(self.inputs) :]))
        given = [next(made) if isinstance(o, torch.Tensor) else o for o in self.outputs]
        return pytree.tree_unflatten(given, self.structure)


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
    asynchronous: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
) -> Any:  # fmt: skip
    """Callables whose calls replay a graph forward and one backward. callables: modules or functions, or one; their
    arguments have to be as `sample_args` (a tuple of arguments, or one for each). A module is returned itself; in the
    other of training and evaluation it runs as before. Raises RuntimeError for modules with hooks."""
    single = not isinstance(callables, (tuple, list))
    each, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    made = [_graphed(c, a, num_warmup_iters, allow_unused_input) for c, a in zip(each, samples, strict=True)]
    return made[0] if single else tuple(made)


def _graphed(each: Any, sample: Sequence[Any], warmups: int, allow_unused: bool) -> Any:
    leaves, spec = pytree.tree_flatten((tuple(sample), {}))
    if not isinstance(each, torch.nn.Module):
        captured = _Training(each, None, leaves, spec, warmups, allow_unused)

        @functools.wraps(each)
        def call(*args: Any) -> Any:
            return captured(pytree.tree_leaves(args))

        return call
    if each._forward_hooks or each._forward_pre_hooks or each._backward_hooks:
        raise RuntimeError("a module with hooks cannot be graphed: register them afterwards")
    captured = _Training(each.forward, each, leaves, spec, warmups, allow_unused)
    each.forward = _AsSampled(each.forward, each, captured)
    return each


class _AsSampled:
    """What a module of `make_graphed_callables` has in place of its `forward`, which a copy of it has again."""

    def __init__(self, original: Callable[..., Any], module: torch.nn.Module, captured: _Training) -> None:
        functools.update_wrapper(cast(Any, self), original)
        self.original, self.module, self.captured = original, module, captured
        self.training = module.training

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self.original,)

    def __call__(self, *args: Any) -> Any:
        if self.module.training != self.training:
            return self.original(*args)
        return self.captured(pytree.tree_leaves(args))


def _itself(forward: Callable[..., Any]) -> Callable[..., Any]:
    return forward


class ModuleCacher:
    """Makes a module's training calls replay graphs, one pair for each kind of call, at most `max_graphs`:
    `model = ModuleCacher(max_graphs=10)(model=model)`. Calls without gradients run as before."""

    def __init__(self, max_graphs: int = 10) -> None:
        self.max_graphs = max_graphs

    def __call__(
        self, model: torch.nn.Module, use_lfu: bool = False, inplace: bool = True, allow_unused_input: bool = False,
        asynchronous: bool = False, have_grad_accumulation: bool = False, log_frequency: int = 100,
        verbose: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
    ) -> torch.nn.Module:  # fmt: skip
        """The module, or with inplace=False one that shares its parameters. What is not named here changes nothing."""
        model = model if inplace else copy.copy(model)
        model.forward = _Cached(model.forward, model, self.max_graphs, allow_unused_input)
        return model


class _Cached(_Forward):
    """See `ModuleCacher`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        recorder = current.recorder()
        module = self.module
        usable = module is not None and module.training and torch.is_grad_enabled()
        key = _key(leaves, spec, True) if usable and recorder.lazy and not recorder.watching else None
        if not self.has_room(key):
            return self.original(*args, **kwargs)
        if key not in self.known:
            self.known[key] = _Training(self.original, module, leaves, spec, 0, *self.options)
        return self.known[key](leaves)
