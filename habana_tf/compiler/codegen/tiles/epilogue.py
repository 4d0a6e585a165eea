"""The interface of contraction epilogues, and the two that only store: results, or partial sums.

An `Epilogue` is called for each vector of final sums, with a `SumVector` that has its position in the result. It emits
the fused elementwise work and all stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from habana_tf.compiler.codegen.emit import Function, Value, first_lanes
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.vector_memory import narrow
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node

CallBuffer = str | tuple[str, int] | Node
"""A buffer of a kernel: "a", "b" or "out", ("temp", i), or a node that the epilogue uses."""


@dataclass
class Tile:
    """A tile being emitted. starts: the start of each label (SSA or literal, by key); bases: addresses shared in the
    tile."""

    fn: Function
    c: Canonical
    starts: Mapping[int, Value]
    bases: dict[tuple[tuple[int, ...], Value], Value] = field(default_factory=dict)

    def base(self, steps: tuple[int, ...], labels: Sequence[Label], first: Value) -> Value:
        """first + sum(start * step) over labels."""
        if (steps, first) not in self.bases:
            total = first
            for label, step in zip(labels, steps, strict=True):
                if step:
                    total = self.fn.add(total, self.fn.mul(self.starts.get(label.key, "0"), step))
            self.bases[steps, first] = total
        return self.bases[steps, first]


@dataclass(frozen=True)
class SumVector:
    """A vector of final sums (`value`, <lanes x float>, not rounded to the result's type) and its position.

    Lanes are consecutive along the lane label. Only the first `active` lanes are valid; `mask` is their constant mask,
    or None if all are.
    """

    value: Value
    lanes: int
    active: int
    tile: Tile
    within: Mapping[int, int]
    """The vector's constant offset from the tile's start, by label key."""

    @property
    def mask(self) -> str | None:
        return None if self.active == self.lanes else first_lanes(self.lanes, self.active)

    def offset(self, strides: Sequence[Extent], const: int = 0, first: Value = "0") -> Value:
        """The element offset (i64) of lane 0 in a tensor with these strides per label of the spec, starting at
        `first + const`."""
        labels = self.tile.c.labels()
        steps = tuple(self._step(label, strides) for label in labels)
        distance = sum(self.within.get(label.key, 0) * step for label, step in zip(labels, steps, strict=True))
        return self.tile.fn.add(self.tile.base(steps, labels, first), distance + const)

    def lane_stride(self, strides: Sequence[Extent]) -> int:
        """The stride of lanes in elements: 1 if contiguous, 0 for a uniform value."""
        lane = self.tile.c.lane
        return self._step(lane, strides) if lane else 0

    def index(self, label: int) -> Value:
        """The index (i64) of lane 0 along a label of the spec."""
        fn, spec = self.tile.fn, self.tile.c.spec
        if spec.extents[label] == 1:
            return "0"
        merged = next(x for x in self.tile.c.labels() if label in x.sources)
        at = fn.add(self.tile.starts.get(merged.key, "0"), self.within.get(merged.key, 0))
        place = merged.sources.index(label)
        inner = ext.product(spec.extents[other] for other in merged.sources[place + 1 :])
        at = fn.div(at, extent_value(fn, inner))
        return fn.rem(at, extent_value(fn, spec.extents[label])) if place else at

    def steps(self, strides: Sequence[Extent]) -> dict[int, int]:
        """The strides of merged labels in a tensor with these strides, by label key."""
        return {label.key: self._step(label, strides) for label in self.tile.c.labels()}

    def _step(self, label: Label, strides: Sequence[Extent]) -> int:
        step = strides[label.sources[-1]]
        assert isinstance(step, int), "canonical has seen to it"
        reach: Extent = step
        for inner, outer in zip(reversed(label.sources), list(reversed(label.sources))[1:], strict=False):
            reach = ext.mul(reach, self.tile.c.spec.extents[inner])
            if strides[outer] != reach:
                raise ValueError(f"strides {strides} are not affine over merged labels; name them in the spec's `also`")
        return step


@dataclass(frozen=True)
class PrefetchLine:
    """A cache line to prefetch: its address, and its strides in bytes by label key."""

    pointer: Value
    steps: Mapping[int, int]


class Epilogue(Protocol):
    """An epilogue. buffers: appended to those of the kernel's call; `begin` gets their pointers. sums: column sums of
    the results; `vector` gives their terms."""

    @property
    def buffers(self) -> Sequence[CallBuffer]: ...

    @property
    def sums(self) -> ResultSums | None:
        return None

    def begin(self, fn: Function, pointers: list[Value]) -> None: ...

    def lines(self, fn: Function, p: SumVector) -> list[PrefetchLine]:
        """The memory to prefetch before a tile's sums are computed: of stores, none. p: the tile's first vector."""
        return []

    def vector(self, fn: Function, p: SumVector) -> Sequence[Value]: ...


class StoreResult(Epilogue):
    """The default epilogue: rounds to the result's type and stores."""

    buffers: Sequence[CallBuffer] = ("out",)

    def __init__(self, c: Canonical, bf16_instruction: bool) -> None:
        self.out = c.spec.out
        self.bf16_instruction = bf16_instruction

    def begin(self, fn: Function, pointers: list[Value]) -> None:
        self.pointer = pointers[0]

    def vector(self, fn: Function, p: SumVector) -> Sequence[Value]:
        offset = p.offset(self.out.strides, self.out.offset)
        value, element = p.value, "float"
        if self.out.dtype is DType.BF16:
            element = "i16"
            if self.bf16_instruction:
                value = fn.op(f"fptrunc <{p.lanes} x float> {value} to <{p.lanes} x bfloat>")
                value = fn.op(f"bitcast <{p.lanes} x bfloat> {value} to <{p.lanes} x i16>")
            else:
                value = narrow(fn, p.lanes, value)
        fn.masked_store(element, p.lanes, value, fn.offset(self.pointer, element, offset), p.mask)
        return ()


class StorePartial(Epilogue):
    """Stores the partial sums of a chunk of k as fp32, densely in the order of the result's labels."""

    buffers: Sequence[CallBuffer] = ()

    def __init__(self, c: Canonical, temp: int) -> None:
        self.buffers = (("temp", temp),)
        steps: list[Extent] = [0] * len(c.spec.extents)
        size: Extent = 1
        for i in sorted(range(len(steps)), key=lambda i: nominal(c.spec.out.strides[i])):
            if c.spec.out.strides[i] and c.spec.extents[i] != 1:
                steps[i] = size
                size = ext.mul(size, c.spec.extents[i])
        if not all(isinstance(steps[x.key], int) for x in c.labels()):
            raise Unfit("a product's partial sums have strides known at run time only")
        self.strides = tuple(steps)
        self.size = size
        self._first: Value = "0"

    def begin(self, fn: Function, pointers: list[Value]) -> None:
        self.pointer = pointers[0]
        self._size = extent_value(fn, self.size)

    def begin_chunk(self, fn: Function, chunk: Value) -> None:
        """Sets the chunk of the following sums."""
        self._first = fn.mul(chunk, self._size)

    def vector(self, fn: Function, p: SumVector) -> Sequence[Value]:
        offset = p.offset(self.strides, first=self._first)
        fn.masked_store("float", p.lanes, p.value, fn.offset(self.pointer, "float", offset), p.mask)
        return ()
