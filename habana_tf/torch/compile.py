"""torch.compile(backend="hpu_backend"): the graphs that Dynamo makes of a function become programs.

PyTorch finds the backend by the package's entry point `torch_dynamo_backends`, so that to load the device imports no
Dynamo. AOTAutograd splits a graph into a forward and a backward one of ATen overloads, mutations at the end.
There is one way from overloads to programs, the recorder's: the first call of a graph is recorded as in lazy mode, and
what it records is bound to the arguments (`stretches`), so that a later call is recorded in one go. A forward graph
waits for its backward one, with which it is one program, unless the host reads what it gives:

    forward, loss, backward                  -->    program(forward, loss, backward)
    forward, print(loss.item()), backward    -->    program(forward), program(backward)

Ops that no program can have divide a graph:

    mul, linalg_svd, add    -->    program(mul), svd on the CPU, program(add)
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_tf.resolver import placements
from habana_tf.torch import compile_config, private_api
from habana_tf.torch.changes.compiling import whole_upsampling
from habana_tf.torch.loader import load
from habana_tf.torch.memory.strides import hints, order_of_strides, ordered
from habana_tf.torch.record import current, scopes
from habana_tf.torch.record.compiled_steps import GraphKind
from habana_tf.torch.record.each_op import EachOp
from habana_tf.torch.record.nested import tensors
from habana_tf.torch.record.stretches import BoundStretch
from habana_tf.torch.record.tree import TreeNode

log = logging.getLogger("habana_tf")

private_api.untraced("habana_tf")  # kernels and collectives run in the middle of what Dynamo traces

_OPTIONS = ("keep_input_mutations", "use_eager_fallback")
"""Habana's options that are known here; `compile_config` has their values where none is given."""
_MOST_NODES = 4096
"""Nodes of a graph that one program may be of."""
_MOST_TREE_NODES = 8
"""Places in recordings at which a graph may be part of a longer program; at others it is one by itself."""


def hpu_backend(
    graph: torch.fx.GraphModule, examples: Sequence[Any], options: dict[str, Any] | None = None, **others: Any
) -> Callable[..., Any]:
    """Compiles what Dynamo has traced.

    options: keep_input_mutations, whether programs write into arguments (else a copy follows them); use_eager_fallback,
    whether ops without a lowering run on the CPU (else RuntimeError). Others, Habana's among them that are about its
    own compiler (`force_static_compile`), change nothing, and a warning says so.
    """
    from torch._dynamo.backends.common import aot_autograd

    for what, why, file, line in private_api.reasons_to_trace(graph):
        placements.note_line(what, scopes.seen(file, line), why)
    chosen = {**{name: getattr(compile_config, name) for name in _OPTIONS}, **(options or {}), **others}
    if unknown := sorted(set(chosen) - set(_OPTIONS)):
        log.warning("hpu_backend: the options %s change nothing here; it has %s", unknown, sorted(_OPTIONS))

    def compiler(kind: GraphKind) -> Callable[..., Any]:
        def compiled(part: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            load()
            return _boxed(Graph(part, chosen["use_eager_fallback"], kind))

        return compiled

    made = aot_autograd(
        fw_compiler=compiler(GraphKind.FORWARD), bw_compiler=compiler(GraphKind.BACKWARD),
        inference_compiler=compiler(GraphKind.ALONE), keep_inference_input_mutations=chosen["keep_input_mutations"],
    )  # fmt: skip
    with whole_upsampling():
        called: Callable[..., Any] = made(graph, examples)
    return called


def enable_compiled_autograd() -> None:
    """Has `torch.compile` trace `backward()` as well, across graph breaks of the forward pass."""
    torch._dynamo.config.compiled_autograd = True


def _boxed(graph: Graph) -> Callable[..., Any]:
    """A function that takes its arguments in a list, which it empties when they are used."""

    def run(args: list[Any]) -> Any:
        results = graph(*args)
        args.clear()
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class Graph:
    """A graph of AOTAutograd. The first call runs it node by node and finds the nodes that are no part of a program;
    these divide it into regions."""

    def __init__(self, graph: torch.fx.GraphModule, may_fall_back: bool, kind: GraphKind) -> None:
        self.graph, self.may_fall_back, self.kind = graph, may_fall_back, kind
        self.run: Callable[..., Any] | None = None
        for node in graph.graph.nodes:
            if node.op == "call_function" and node.target is torch.ops.aten.view.default:
                node.target = torch.ops.aten.reshape.default
        _keep_orders(graph.graph)
        graph.recompile()

    def __call__(self, *args: Any) -> Any:
        if self.run is not None:
            return self.run(*args)
        walk, whole = _Walk(self.graph), Region(self.graph, self.kind)
        results = whole.first(walk.run, args)
        if walk.outside and not self.may_fall_back:
            raise RuntimeError(f"hpu_backend: no program can have {walk.names()}, and use_eager_fallback is False")
        if walk.outside:
            log.info("A compiled graph is divided by %s", walk.names())
        self.run = _divided(whole, walk.outside)
        return results


def _keep_orders(graph: torch.fx.Graph) -> None:
    """Has the results of a graph, and what `as_strided` reads, the order of axes in memory that the trace says. Others
    have what their lowerings give, whose order may be another."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    read = [n.args[0] for n in graph.nodes if n.op == "call_function" and n.target is torch.ops.aten.as_strided.default]
    for node in dict.fromkeys([*output.all_input_nodes, *read]):
        traced = node.meta.get("val")
        if node.op != "call_function" or not isinstance(traced, torch.Tensor) or traced.device.type != "hpu":
            continue
        order = order_of_strides(hints(traced.shape), hints(traced.stride()))
        if order is None:
            continue
        with graph.inserting_after(node):
            kept = graph.call_function(ordered, (node, order))
            kept.meta["val"] = traced
        node.replace_all_uses_with(kept, lambda user, kept=kept: user is not kept)


class _Walk(torch.fx.Interpreter):
    """Runs a graph and notes the nodes that are no part of a program."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self.outside: dict[torch.fx.Node, None] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        recorder = current.recorder()
        uses, draws = recorder.host_uses, recorder.draws
        with scopes.of_node(n.meta):
            made = super().run_node(n)
        if n.op == "call_function":
            random = torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())
            on_host = any(t.device.type != "hpu" for t in tensors(made))
            taken = n.target is operator.getitem and n.args[0] in self.outside
            if on_host or taken or uses != recorder.host_uses or random and draws == recorder.draws:
                self.outside[n] = None
        return made

    def names(self) -> str:
        """The ops that were noted."""
        return ", ".join(sorted({str(n.target) for n in self.outside if isinstance(n.target, torch._ops.OpOverload)}))


def _divided(whole: Region, outside: dict[torch.fx.Node, None]) -> Callable[..., Any]:
    """The graph as regions, alternately of programs and of nodes that are no part of one."""
    graph = whole.graph
    parts: dict[torch.fx.Node, int] = {}
    part, count, was = 0, 0, False
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        if (node in outside) != was or count >= _MOST_NODES:
            part, count, was = part + 1, 0, node in outside
        parts[node], count = part, count + 1
    if not any(node in outside for node in parts) and part == 0:
        return whole
    from torch.fx.passes.split_module import split_module

    split = split_module(graph, graph, lambda node: parts[node], keep_original_order=True)
    mixed = {k for node, k in parts.items() if node in outside}
    for name, region in list(split.named_children()):
        number = name.removeprefix("submod_")
        if number.isdigit() and int(number) not in mixed:
            setattr(split, name, Region(region, whole.kind))
    run: Callable[..., Any] = split.forward
    return run


class Region(torch.nn.Module):
    """A part of a graph that is one stretch of a program: recorded for each tree node and each layout of
    arguments that it meets, and repeated from then on.

    known: by that node and the numbers among the arguments, what was bound. Without entry where a recording could not
    be bound.
    """

    def __init__(self, graph: torch.fx.GraphModule, kind: GraphKind) -> None:
        super().__init__()
        self.graph, self.kind = graph, kind
        self.known: dict[tuple[TreeNode, tuple[Any, ...]], list[BoundStretch]] = {}
        self.nodes: dict[TreeNode, None] = {}
        self.root: TreeNode | None = None
        self.numbers: list[int] | None = None
        self.held: list[torch.Tensor] = []
        self.single = False

    def forward(self, *args: Any) -> Any:
        return self._called(args, self.graph)

    def first(self, run: Callable[..., Any], args: Sequence[Any]) -> Any:
        """A call for which another function records the ops of the graph."""
        return self._called(args, run)

    def _called(self, args: Sequence[Any], run: Callable[..., Any]) -> Any:
        recorder = current.recorder()
        if recorder.watched is not None or EachOp.entered:  # a capture, which notes what is recorded, sees it, too
            with torch.no_grad():
                return (_Walk(self.graph).run if EachOp.entered else run)(*args)
        if self.numbers is None:
            self.numbers, self.held = self._looked_at(args)
        with recorder.lock:
            recorder.graph_begins(self.kind, self)
            recorder.memory.collect()
            if self.root is not recorder.root:  # the tree was begun anew
                self.root = recorder.root
                self.known.clear()
                self.nodes.clear()
            key = tuple(map(recorder.other, (args[k] for k in self.numbers)))
            if len(self.nodes) >= _MOST_TREE_NODES and recorder.node not in self.nodes:
                recorder.flush()
            given = (*args, *self.held)
            for bound in self.known.get((recorder.node, key), ()):
                blocks = bound.blocks(given, recorder.inputs)
                if blocks is not None:
                    if self.kind is GraphKind.ALONE and not recorder.lazy and not recorder.waiting:
                        return self._given(recorder.run_alone(bound, given, blocks))
                    results: Sequence[Any] = recorder.repeat(bound, given, blocks)
                    break
            else:
                results = self._recorded(key, run, args)
            recorder.graph_ends(self.kind, self)
        return self._given(results)

    def _given(self, results: Sequence[Any]) -> Any:
        return results[0] if self.single else tuple(results)

    def _recorded(self, key: tuple[Any, ...], run: Callable[..., Any], args: Sequence[Any]) -> Sequence[Any]:
        recorder = current.recorder()
        before = recorder.node
        with torch.no_grad():
            results, bound = recorder.stretch(lambda: run(*args), (*args, *self.held))
        self.single = not isinstance(results, (tuple, list))
        if bound is not None:
            self.known.setdefault((before, key), []).append(bound)
            self.nodes[before] = None
        return [results] if self.single else results

    def _looked_at(self, args: Sequence[Any]) -> tuple[list[int], list[torch.Tensor]]:
        """Which arguments are numbers, and the tensors that the graph holds."""
        held = [*self.graph.parameters(), *self.graph.buffers()]
        held += [t for t in vars(self.graph).values() if isinstance(t, torch.Tensor)]
        numbers = [k for k, a in enumerate(args) if not isinstance(a, torch.Tensor)]
        return numbers, [t for t in held if t.device.type == "hpu"]
