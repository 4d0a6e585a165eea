"""Code of contractions with fused epilogues: turns a body into a `ContractSpec` and an `Epilogue`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code, FunctionCall
from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, PrefetchLine, SumVector
from habana_tf.compiler.codegen.tiles.program import emit_contract
from habana_tf.compiler.codegen.vector_access import Mask, Val
from habana_tf.compiler.contraction_operands import labels_of, specification
from habana_tf.compiler.costs import CACHE_LINE
from habana_tf.compiler.point_values import Load, Result
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Target
from habana_tf.ir.extent import Extent, Var
from habana_tf.ir.linearity import linear
from habana_tf.ir.primitives import Contraction, Node


def emit_contraction(body: Body, name: str, target: Target, compact: bool = False) -> Code:
    """The functions of a contraction with its epilogue."""
    node, (a, b) = body.core, body.operands
    assert node is not None
    simple = plain(body) and not body.streamed
    epilogue = None if simple else FusedEpilogue(body, labels_of(node), target.rounds_to_bf16)
    also = epilogue.strides if epilogue else ()
    spec = specification(node, (a, b), also)
    code = emit_contract(spec, target, name, epilogue, compact=compact, invariant=body.invariant)
    named = {"a": a.base, "b": b.base, "out": node}
    calls = [
        FunctionCall(
            c.name, c.ir, tuple(named[x] if isinstance(x, str) else x for x in c.buffers), c.grid, c.grain, once=c.once
        )
        for c in code.calls
    ]
    return Code(tuple(calls), code.declarations, code.temps)


def plain(body: Body) -> bool:
    """Whether the contraction only stores its result."""
    if body.reductions or len(body.stores) != 1:
        return False
    return body.stores[0].target is body.core and isinstance(body.stores[0].value, Result)


class FusedEpilogue:
    """Elementwise work and column sums, evaluated for each vector of sums. bf16: the CPU has an instruction that rounds
    to bfloat16."""

    def __init__(self, body: Body, labels: Sequence[int], bf16: bool) -> None:
        assert body.core is not None
        self.body = body
        self.bf16 = bf16
        self.labels = labels
        self.spec: Contraction = body.core.arg
        self.axes = body.variables
        self.reads = body.loaded()
        self.outputs = list(dict.fromkeys(s.target for s in body.stores))
        self.sums = ResultSums(body.reductions, bf16) if body.reductions else None
        kept = any(isinstance(s.value, Result) for s in body.stores)
        self.rounded = bool(self.sums) and kept  # sums are of the rounded results, which are stored
        self._known: dict[Extent, tuple[tuple[Extent, ...], Extent]] = {}
        self.strides = [self.steps(e) for e in (*body.offsets(), *(s.offset for s in body.stores))]
        if self.sums:  # column sums: the last axis must not merge
            self.strides.append(tuple(int(label == self.spec.out[-1]) for label in self.labels))

    @property
    def buffers(self) -> Sequence[CallBuffer]:
        return (*self.reads, *self.outputs, *([self.sums.buffer] if self.sums else []))

    def steps(self, e: Extent) -> tuple[Extent, ...]:
        """An index expression's stride per label."""
        return self._linear(e)[0]

    def start(self, e: Extent) -> Extent:
        """An index expression where all labels are 0: of a part of a tensor a size, where it begins."""
        return self._linear(e)[1]

    def place(self, fn: Function, p: SumVector, e: Extent) -> Value:
        """An index expression (i64) at a vector of sums."""
        steps, start = self._linear(e)
        return p.offset(steps, start) if isinstance(start, int) else p.offset(steps, first=extent_value(fn, start))

    def _linear(self, e: Extent) -> tuple[tuple[Extent, ...], Extent]:
        known = self._known.get(e)
        if known is None:
            found = linear(e, self.axes)
            if found is None:
                raise Unfit(f"epilogue reads at {e}")
            out: list[Extent] = [0] * len(self.labels)
            for label, step in zip(self.spec.out, found[0], strict=True):
                out[self.labels.index(label)] = step
            known = self._known[e] = tuple(out), found[1]
        return known

    def begin(self, fn: Function, pointers: list[Value]) -> None:
        fn.bf16 = self.bf16
        self.pointers = pointers
        if self.sums:
            self.sums.begin(pointers[-1])

    def lines(self, fn: Function, p: SumVector) -> list[PrefetchLine]:
        """Lines of tensors with the result's layout (an optimizer's), whose distant rows hardware does not prefetch.
        Operands that are the same for all rows (a bias) stay in the cache."""
        lane, found = p.tile.c.lane, []
        loads = [(v.node, v.offset) for v in self.body.values if isinstance(v, Load) and not v.guard]
        for node, offset in dict.fromkeys([*loads, *((s.target, s.offset) for s in self.body.stores)]):
            if isinstance(offset, int):
                continue
            steps = self.steps(offset)
            across = any(step for i, step in enumerate(steps) if lane is None or i not in lane.sources)
            if across and p.lane_stride(steps) == 1:
                nbytes = node.dtype.bytes
                at = fn.mul(self.place(fn, p, offset), nbytes)
                pointer = fn.op(f"getelementptr i8, ptr {self.pointers[self.buffers.index(node)]}, i64 {at}")
                found.append(PrefetchLine(pointer, {key: step * nbytes for key, step in p.steps(steps).items()}))
        return found

    def vector(self, fn: Function, p: SumVector) -> Sequence[Value]:
        ev = _PointEvaluator(fn, {n: k for k, n in enumerate(self.reads)}, p, self)
        ev.pointers = dict(enumerate(self.pointers))
        ev.written = {len(self.reads) + k for k in range(len(self.outputs))}
        ev.written.update(self.reads.index(n) for n in self.body.overwritten)
        ev.streamed = {len(self.reads) + self.outputs.index(n) for n in self.body.streamed}
        for v in self.body.values:
            if isinstance(v, Result):
                ev.define(v, Val(ev.many.round(p.value, v.dtype) if self.rounded else p.value, False))
        if p.mask is not None:
            ev.guard = Mask(None, p.mask)
        for load in self.body.loaded_first:
            ev.value(load)
        for s in self.body.stores:
            buffer = len(self.reads) + self.outputs.index(s.target)
            ev.store(buffer, s.target.dtype, s.offset, ev.stored(self.body, s))
        return [ev.vector_of(r.value) for r in self.body.reductions]


class _PointEvaluator(Evaluator):
    """An evaluator of index expressions over a contraction's labels, at a vector of its result."""

    STREAMED = (CACHE_LINE,)  # halves of a line would not be stored consecutively

    def __init__(self, fn: Function, buffers: Mapping[Node, int], point: SumVector, epilogue: FusedEpilogue) -> None:
        super().__init__(fn, buffers, point.lanes, Var("lanes", point.lanes))
        self.point = point
        self.epilogue = epilogue

    def stride(self, e: Extent) -> int | None:
        return 0 if isinstance(e, int) else self.point.lane_stride(self.epilogue.steps(e))

    def in_step(self, offset: Extent) -> bool:
        """As in the base class; tiles begin at multiples of the lanes along the lane label."""
        lane = self.point.tile.c.lane
        if lane is None or isinstance(offset, int):
            return False
        others = [step for label, step in enumerate(self.epilogue.steps(offset)) if label not in lane.sources]
        parts = [self.epilogue.start(offset), self.point.within.get(lane.key, 0), *others]
        return all(isinstance(part, int) and part % self.lanes == 0 for part in parts)

    def number(self, e: Extent) -> Value:
        if isinstance(e, int):
            return str(e)
        return self.epilogue.place(self.fn, self.point, e)
