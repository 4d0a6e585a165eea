"""What follows a contraction's sums: the epilogue's interface, and the two epilogues of this package.

An `Epilogue` is called once per accumulator vector, when its sums are final, with a `Point` that knows where in the
result the vector lies. It emits the elementwise work fused to the contraction and all stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from habana_tf.compiler.codegen.emit import Function, Value, first_lanes
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.vector_memory import masked_store, narrow
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node

Buffer = str | tuple[str, int] | Node
"""What a kernel works on: "a", "b" or "out", ("temp", i), or what the epilogue asks for."""


@dataclass
class Tile:
    """A tile being emitted: where each label starts (SSA or literal, by key); addresses made once per tile."""

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
                    total = self.fn.integer("add", total, self.fn.integer("mul", self.starts.get(label.key, "0"), step))
            self.bases[steps, first] = total
        return self.bases[steps, first]


@dataclass(frozen=True)
class Point:
    """One vector of final sums. `value` is <lanes x float>, not yet rounded to the result's type.

    Lane i stands `i` further along the lane label. Only the first `active` lanes are valid; where they are fewer
    than `lanes`, `mask` is the text of the constant mask to load and store with.
    """

    value: Value
    lanes: int
    active: int
    tile: Tile
    within: Mapping[int, int]
    """By label key: the vector's constant distance from the tile's start."""

    @property
    def mask(self) -> str | None:
        return None if self.active == self.lanes else first_lanes(self.lanes, self.active)

    def offset(self, strides: Sequence[Extent], const: int = 0, first: Value = "0") -> Value:
        """The element offset (i64) of lane 0 in a tensor with one stride per label of the spec, whose first element is
        at `first + const`."""
        labels = self.tile.c.labels()
        steps = tuple(self._step(label, strides) for label in labels)
        distance = sum(self.within.get(label.key, 0) * step for label, step in zip(labels, steps, strict=True))
        return self.tile.fn.integer("add", self.tile.base(steps, labels, first), distance + const)

    def lane_stride(self, strides: Sequence[Extent]) -> int:
        """Elements from one lane to the next: 1 a vector in memory, 0 one value for all lanes."""
        lane = self.tile.c.lane
        return self._step(lane, strides) if lane else 0

    def index(self, label: int) -> Value:
        """The index (i64) of lane 0 along a label of the spec."""
        fn, spec = self.tile.fn, self.tile.c.spec
        if spec.extents[label] == 1:
            return "0"
        merged = next(x for x in self.tile.c.labels() if label in x.sources)
        at = fn.integer("add", self.tile.starts.get(merged.key, "0"), self.within.get(merged.key, 0))
        place = merged.sources.index(label)
        inner = ext.product(spec.extents[other] for other in merged.sources[place + 1 :])
        at = fn.integer("udiv", at, extent_value(fn, inner))
        return fn.integer("urem", at, extent_value(fn, spec.extents[label])) if place else at

    def steps(self, strides: Sequence[Extent]) -> dict[int, int]:
        """Elements from one index of a label to the next in a tensor with these strides, by label key."""
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
class Line:
    """A line of memory: where it is, and by label key how many bytes further it is for the next index of a label."""

    pointer: Value
    steps: Mapping[int, int]


class Epilogue(Protocol):
    """`buffers` are appended to the buffer list of the call that runs the epilogue; `begin` gets their pointers. sums:
    what is added up of the results; `vector` gives the terms at a point."""

    @property
    def buffers(self) -> Sequence[Buffer]: ...

    @property
    def sums(self) -> ResultSums | None: ...

    def begin(self, fn: Function, pointers: list[Value]) -> None: ...

    def lines(self, fn: Function, p: Point) -> list[Line]:
        """The memory that `vector` will wait for, so that it can be asked for before the sums are taken. `p` is a
        tile's first vector."""

    def vector(self, fn: Function, p: Point) -> Sequence[Value]: ...


class StoreResult:
    """The default: rounds to the result's type and stores."""

    buffers: Sequence[Buffer] = ("out",)
    sums = None

    def __init__(self, c: Canonical, bf16_instruction: bool) -> None:
        self.out = c.spec.out
        self.bf16_instruction = bf16_instruction

    def begin(self, fn: Function, pointers: list[Value]) -> None:
        self.pointer = pointers[0]

    def lines(self, fn: Function, p: Point) -> list[Line]:
        return []  # stores wait for no memory

    def vector(self, fn: Function, p: Point) -> Sequence[Value]:
        offset = p.offset(self.out.strides, self.out.offset)
        value, element = p.value, "float"
        if self.out.dtype is DType.BF16:
            element = "i16"
            if self.bf16_instruction:
                value = fn.op(f"fptrunc <{p.lanes} x float> {value} to <{p.lanes} x bfloat>")
                value = fn.op(f"bitcast <{p.lanes} x bfloat> {value} to <{p.lanes} x i16>")
            else:
                value = narrow(fn, p.lanes, value)
        masked_store(fn, element, p.lanes, value, fn.offset(self.pointer, element, offset), p.mask)
        return ()


class StorePartial:
    """Sums of one chunk of k, as fp32, densely in the order of the result's labels."""

    sums = None

    def __init__(self, c: Canonical, temp: int) -> None:
        self.buffers: Sequence[Buffer] = (("temp", temp),)
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
        """The chunk whose sums come next."""
        self._first = fn.integer("mul", chunk, self._size)

    def lines(self, fn: Function, p: Point) -> list[Line]:
        return []

    def vector(self, fn: Function, p: Point) -> Sequence[Value]:
        offset = p.offset(self.strides, first=self._first)
        masked_store(fn, "float", p.lanes, p.value, fn.offset(self.pointer, "float", offset), p.mask)
        return ()
