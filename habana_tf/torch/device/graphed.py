"""Modules whose calls replay HPU graphs: `wrap_in_hpu_graph` for inference, `make_graphed_callables` and `ModuleCacher`
for training.

Calls are of one kind if their tensors have the same shapes and types and their other arguments are equal; each kind has
a graph. Arguments are copied into the graph's memory, and results out of it, so that they outlive the next replay.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from habana_tf.torch.device.graphs import HPUGraph, graph, is_current_stream_capturing
from habana_tf.torch.device.own_graphs import CachedParams, copy_to, input_hash
from habana_tf.torch.record import current
from habana_tf.torch.record.each_op import EachOp
from habana_tf.torch.record.nested import tensors

__all__ = [
    "CachedParams", "HPUGraph", "ModuleCacher", "copy_to", "graph", "input_hash", "is_current_stream_capturing",
    "make_graphed_callables", "wrap_in_hpu_graph", "wrap_in_hpu_graph_func",
]  # fmt: skip


def _key(leaves: Sequence[Any], spec: Any, training: bool) -> Hashable | None:
    """The kind of a call, by which its graph is found. None for calls that cannot have a graph: with tensors of other
    devices, or with an object of the program's own, which may hold tensors and change, as a cache of keys and values
    does."""
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


def wrap_in_hpu_graph_func(
    func: Callable[..., Any], asynchronous: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
    max_graphs: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function whose calls replay graphs, without gradients. The first call of a kind captures its graph. Calls that
    cannot have a graph, and those of more than `max_graphs` kinds, run as before. asynchronous, disable_tensor_cache
    and dry_run have no effect: nothing is asynchronous, no copies are kept, and captures never run programs."""
    replaying = _Replaying(func, None, max_graphs)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return replaying(*args, **kwargs)

    call.clear_cache = replaying.clear_cache  # type: ignore[attr-defined]
    return call


class _Replaying:
    """What a module has in place of its `forward`, which is `original`: it replays graphs, at most `max_graphs`.

    gradients: whether for training, where other calls run as before, or without gradients. Graphs are on the memory of
    their module's weights, so a copy of the module, or one that is loaded, has a `forward` of its own, which captures
    anew. Its name, documentation and signature are those of `original`: libraries decide by
    `inspect.signature(model.forward)` what a model takes.
    """

    def __init__(
        self, original: Callable[..., Any], module: torch.nn.Module | None, max_graphs: int | None,
        gradients: bool = False, allow_unused: bool = False,
    ) -> None:  # fmt: skip
        functools.update_wrapper(cast(Any, self), original)
        self.original, self.module, self.max_graphs = original, module, max_graphs
        self.gradients, self.allow_unused = gradients, allow_unused
        self.known: dict[Hashable, _Graphs] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.original, self.module, self.max_graphs, self.gradients, self.allow_unused)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        training = self.module is not None and self.module.training
        recorder = current.recorder()
        trains = training and torch.is_grad_enabled() and recorder.lazy and recorder.watched is None
        replays = (trains or not self.gradients) and not EachOp.entered
        key = _key(leaves, spec, training) if replays else None
        with torch.set_grad_enabled(self.gradients and torch.is_grad_enabled()):
            if key in self.known and self.known[key].moved:
                del self.known[key]
            full = self.max_graphs is not None and len(self.known) >= self.max_graphs
            if key is None or full and key not in self.known:
                return self.original(*args, **kwargs)
            if key not in self.known:
                self.known[key] = _Graphs(self.original, self.module, leaves, spec, allow_unused=self.allow_unused)
            return self.known[key](leaves)

    def clear_cache(self) -> None:
        """Forgets the graphs."""
        self.known.clear()


def wrap_in_hpu_graph(
    module: torch.nn.Module, asynchronous: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
    max_graphs: int | None = None,
) -> torch.nn.Module:  # fmt: skip
    """Makes a module's calls replay graphs, without gradients, and returns it. See `wrap_in_hpu_graph_func`. Calls in
    training and in evaluation have graphs of their own; parts that are replaced or moved are captured again. The
    module's new method `clear_cache` forgets the graphs. Raises RuntimeError at the first call in eager mode."""
    forward = _Replaying(module.forward, module, max_graphs)
    module.forward = forward
    module.clear_cache = module.clear_inputs = forward.clear_cache
    return module


class _Graphs:
    """The graphs of one kind of call: one of its forward pass, and one of its backward pass. Autograd sees both as one
    function. There is no backward pass if gradients are off at the capture. Captures run nothing: else what a call
    counts, such as batches, would be counted twice."""

    def __init__(
        self, forward: Callable[..., Any], module: torch.nn.Module | None, leaves: Sequence[Any], spec: Any,
        warmups: int = 0, allow_unused: bool = False,
    ) -> None:  # fmt: skip
        gradients = torch.is_grad_enabled()
        parameters = () if module is None or not gradients else tuple(module.parameters())
        self.forward, self.module, self.spec, self.gradients = forward, module, spec, gradients
        self.static = [
            leaf.detach().clone().requires_grad_(gradients and leaf.requires_grad)
            if isinstance(leaf, torch.Tensor) else leaf
            for leaf in leaves
        ]  # fmt: skip
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
        modules = [] if module is None else module.modules()
        self._owners = [held for m in modules for held in (m._parameters, m._buffers, m._modules)]
        parts = [(held, name, part) for held in self._owners for name, part in held.items()]
        self._parts = [part for part in parts if not isinstance(part[2], torch.Tensor)]
        self._weights = [
            (held, name, t, t.data_ptr(), t.size(), t.stride())
            for held, name, t in parts if isinstance(t, torch.Tensor)
        ]  # fmt: skip

    @property
    def moved(self) -> bool:
        """Whether a parameter or buffer of the module, whose memory is part of the graphs, is in other memory now, or
        another one, or another module, is in its place. Of a function: whether a tensor that its graph reads is gone.
        """
        if self.module is None:
            return self.fwd.reads_what_is_gone
        return (
            sum(map(len, self._owners)) != len(self._parts) + len(self._weights)
            or any(held.get(name) is not part for held, name, part in self._parts)
            or any(
                held.get(name) is not t or t.data_ptr() != address or t.size() != size or t.stride() != strides
                for held, name, t, address, size, strides in self._weights
            )
        )

    def present(self) -> _Graphs:
        """Itself, or a new capture for the same arguments where it has `moved`."""
        if not self.moved:
            return self
        with torch.set_grad_enabled(self.gradients):
            return _Graphs(self.forward, self.module, self.static, self.spec, allow_unused=self.allow_unused)

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

    def replayed(self, given: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Replays the forward pass for these tensors. Returns copies of its results. Called with gradients off."""
        for static, tensor in zip(self.inputs, given, strict=False):
            static.copy_(tensor)
        self.fwd.replay()
        return tuple(o.clone() for o in tensors(self.outputs))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        given, parameters = tensors(leaves), self.surface[len(self.inputs) :]
        made = iter(_Graphed.apply(self, *given, *parameters) if torch.is_grad_enabled() else self.replayed(given))
        results = [next(made) if isinstance(o, torch.Tensor) else o for o in self.outputs]
        return pytree.tree_unflatten(results, self.structure)


class _Graphed(torch.autograd.Function):
    """A call of graphs, for autograd."""

    @staticmethod
    def forward(ctx: Any, graphs: _Graphs, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.graphs = graphs
        made = graphs.replayed(given)
        constant = [m for m, o in zip(made, tensors(graphs.outputs), strict=True) if not o.requires_grad]
        ctx.mark_non_differentiable(*constant)
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a graphed callable has no second derivative, as its backward pass is replayed: call what it is made "
                "of where create_graph=True"
            )
        graphs = ctx.graphs
        due = [g for g, o in zip(grads, tensors(graphs.outputs), strict=True) if o.requires_grad]
        for static, g in zip(graphs.gradients_of, due, strict=True):
            static.copy_(g)
        graphs.bwd.replay()
        ready = iter(graphs.grads)
        found = [next(ready) if t.requires_grad else None for t in graphs.surface]
        return None, *(None if g is None else g.detach().clone() for g in found)


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
    asynchronous: bool = False, disable_tensor_cache: bool = False, dry_run: bool = False,
) -> Any:  # fmt: skip
    """Callables whose calls replay one graph for the forward and one for the backward pass. callables: modules or
    functions, or one. Later arguments have to be like `sample_args` (a tuple of arguments, or one for each callable).
    Modules are returned themselves; in the other one of training and evaluation mode they run as before. Weights that
    are replaced or moved are captured again. Raises RuntimeError for modules with hooks."""
    single = not isinstance(callables, (tuple, list))
    each, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    made = [_graphed(c, a, num_warmup_iters, allow_unused_input) for c, a in zip(each, samples, strict=True)]
    return made[0] if single else tuple(made)


def _graphed(each: Any, sample: Sequence[Any], warmups: int, allow_unused: bool) -> Any:
    leaves, spec = pytree.tree_flatten((tuple(sample), {}))
    if not isinstance(each, torch.nn.Module):
        captured = _Graphs(each, None, leaves, spec, warmups, allow_unused)

        @functools.wraps(each)
        def call(*args: Any) -> Any:
            nonlocal captured
            if EachOp.entered:
                return each(*args)
            captured = captured.present()
            return captured(pytree.tree_leaves(args))

        return call
    if each._forward_hooks or each._forward_pre_hooks or each._backward_hooks:
        raise RuntimeError("a module with hooks cannot be graphed: register them afterwards")
    captured = _Graphs(each.forward, each, leaves, spec, warmups, allow_unused)
    each.forward = _AsSampled(each.forward, each, captured)
    return each


class _AsSampled:
    """Takes the place of the `forward` of a module of `make_graphed_callables`. A copy of the module has the original
    one again."""

    def __init__(self, original: Callable[..., Any], module: torch.nn.Module, captured: _Graphs) -> None:
        functools.update_wrapper(cast(Any, self), original)
        self.original, self.module, self.captured = original, module, captured
        self.training = module.training

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self.original,)

    def __call__(self, *args: Any) -> Any:
        if self.module.training != self.training or EachOp.entered:
            return self.original(*args)
        self.captured = self.captured.present()
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
        model.forward = _Replaying(model.forward, model, self.max_graphs, True, allow_unused_input)
        return model
