"""Contractions in the scheduler's terms: nodes to a `ContractSpec`, and fused elementwise work to an `Epilogue`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from habana_tf.hardware.cpu import Target

from .. import extent as ext
from ..extent import Extent, Var
from ..ir import Contraction, Node
from ..kernels import Call, Code, ContractKernel, Store
from ..operands import View, labels_of, specification
from ..reads import domain_index
from ..views import Unfit
from .axes import accesses
from .contract import Buffer, Point, emit_contract
from .emit import Function, Value
from .expr import Evaluator, Guard, Val


def emit_contraction(
    kernel: ContractKernel, name: str, views: tuple[View, View], reads: Sequence[Node], target: Target,
    compact: bool = False,
) -> Code:  # fmt: skip
    """The functions of a contraction with its epilogue. reads: kept nodes that the epilogue loads."""
    node = kernel.node
    labels = labels_of(node)
    epilogue = None if plain(kernel) else FusedEpilogue(kernel, labels, list(reads), target.avx512_bf16)
    also = epilogue.strides if epilogue else ()
    code = emit_contract(specification(node, views, also), target, name, epilogue, compact=compact)
    named = {"a": views[0].base, "b": views[1].base, "out": node}
    calls = [
        Call(c.name, c.ir, tuple(named[x] if isinstance(x, str) else x for x in c.buffers), c.grid, c.grain)
        for c in code.calls
    ]
    return Code(tuple(calls), code.declarations, code.temps)


def plain(kernel: ContractKernel) -> bool:
    """Whether the sums are stored as they are."""
    return len(kernel.stores) == 1 and kernel.stores[0].target is kernel.node and kernel.stores[0].value is kernel.node


class FusedEpilogue:
    """Elementwise stores on the result's shape, evaluated on each vector of sums.

    bf16: the CPU rounds to bfloat16 in one instruction.
    """

    def __init__(self, kernel: ContractKernel, labels: Sequence[int], reads: list[Node], bf16: bool) -> None:
        self.kernel = kernel
        self.bf16 = bf16
        self.labels = labels
        self.reads = reads
        self.outputs = list(dict.fromkeys(s.target for s in kernel.stores))
        self.buffers: Sequence[Buffer] = (*self.reads, *self.outputs)
        self.index = domain_index(kernel.node.shape)
        loads: Mapping[Node, int] = {**{n: k for k, n in enumerate(self.reads)}, kernel.node: -1}
        found = accesses([(s.value, self.index) for s in kernel.stores if s.value is not kernel.node], loads)
        self.strides = [self.steps(e) for e in (*found.loads, *(self._place(s) for s in kernel.stores))]

    def steps(self, e: Extent) -> tuple[Extent, ...]:
        """An index expression's stride per label."""
        spec: Contraction = self.kernel.node.arg
        found = ext.linear(e, [Var(f"x{axis}", n) for axis, n in enumerate(self.kernel.node.shape)])
        if found is None:
            raise Unfit(f"epilogue reads at {e}")
        out: list[Extent] = [0] * len(self.labels)
        for label, step in zip(spec.out, found[0], strict=True):
            out[self.labels.index(label)] = step
        return tuple(out)

    def _place(self, s: Store) -> Extent:
        """Where in its target a store puts the element at the index."""
        return ext.ravel([ext.add(i, b) for i, b in zip(self.index, s.shift, strict=True)], s.target.shape)

    def begin(self, fn: Function, pointers: list[Value]) -> None:
        fn.bf16 = self.bf16
        self.pointers = pointers

    def vector(self, fn: Function, p: Point) -> None:
        ev = _PointEvaluator(fn, {n: k for k, n in enumerate(self.reads)}, p, self)
        ev.pointers = dict(enumerate(self.pointers))
        ev.written = {len(self.reads) + k for k in range(len(self.outputs))}
        ev.define(self.kernel.node, self.index, Val(p.value, False))
        if p.mask is not None:
            ev.guard = Guard(None, p.mask)
        for s in self.kernel.stores:
            self._store(ev, s)

    def _store(self, ev: Evaluator, s: Store) -> None:
        value = ev.value(s.value, self.index)
        buffer = len(self.reads) + self.outputs.index(s.target)
        ev.store(buffer, s.target.dtype, self._place(s), value)


class _PointEvaluator(Evaluator):
    """An evaluator whose index variables are the labels of a contraction at one vector of its result."""

    def __init__(self, fn: Function, buffers: Mapping[Node, int], point: Point, epilogue: FusedEpilogue) -> None:
        super().__init__(fn, buffers, point.lanes, Var("lanes", point.lanes))
        self.point = point
        self.epilogue = epilogue

    def stride(self, e: Extent) -> int | None:
        return 0 if isinstance(e, int) else self.point.lane_stride(self.epilogue.steps(e))

    def number(self, e: Extent) -> Value:
        if isinstance(e, int):
            return str(e)
        return self.point.offset(self.epilogue.steps(e), e.const)
