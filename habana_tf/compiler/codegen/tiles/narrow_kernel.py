"""The kernels of products with few columns, with lanes along the sum or along the rows (see `narrow`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.tiles.accumulate import SIZE, Accumulation, KLoop, Micro, body_of
from habana_tf.compiler.codegen.tiles.drain import TileResults
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue, StorePartial, begin_epilogue
from habana_tf.compiler.codegen.tiles.kernels import ContractionCall
from habana_tf.compiler.codegen.tiles.nest import Cursor, TileLoops
from habana_tf.compiler.codegen.tiles.padding import guarded
from habana_tf.compiler.codegen.tiles.panels import transpose
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.vector_memory import widen_one
from habana_tf.compiler.contraction import Canonical
from habana_tf.compiler.costs import THREAD_ELEMENTS
from habana_tf.compiler.product_costs import NARROW_AHEAD, NARROW_FETCHING, STRIDED_BYTES
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal


class NarrowKernel(TileResults):
    """Computes register tiles and passes them to the epilogue (or stores partial sums)."""

    def __init__(
        self, c: Canonical, p: Plan, name: str, operands: tuple[CallBuffer, CallBuffer], out: Epilogue,
        partial: StorePartial | None,
    ) -> None:  # fmt: skip
        """operands: buffers of a and b; b is packed by `pack_columns` if lanes run along the sum."""
        super().__init__(c, p, name)
        self.operands, self.partial, self.out = operands, partial, partial or out

    def emit(self) -> ContractionCall:
        fn, p = self.fn, self.p
        self.reserve(self.out)
        self.pa, self.pb = fn.buffer(0), fn.buffer(1)
        begin_epilogue(fn, self.out, 2)
        self.items(lambda cursor: self.inner(p.dims[p.grid_dims :], cursor, self._tile), self.out)
        return ContractionCall(fn, (*self.operands, *self.out.buffers), p.grid, p.grain)

    def _tile(self, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        if self.partial:
            self.partial.begin_chunk(self.fn, cursor.chunk)
        self.fetch(self.out, cursor, size, vectors, active)
        sums = self._along_sum(cursor, size) if self.p.lanes == "sum" else self._along_rows(cursor, size)
        self.finish(self.out, cursor, size, vectors, active, sums)

    def _along_sum(self, cursor: Cursor, size: int) -> list[Value]:
        fn, c, p = self.fn, self.c, self.p
        unit, step = c.a.dtype.bytes, vector_steps(p)
        a = self.address(self.pa, "a", unit, c.a.offset, cursor)
        b = fn.ptradd(self.pb, _packed_place(self, cursor))
        loops = []
        for label, line in zip(c.k, packed_lines(c, p), strict=True):
            trip, rest, a_step = self.trip(cursor, label), 0, label.a * unit
            most = self.most(cursor, label)
            if label is c.k[-1]:
                a_step *= step
                if isinstance(trip, int):
                    trip, rest = divmod(trip, step)
                else:  # a chunk, of whole vectors
                    trip, most = fn.op(f"udiv i64 {trip}, {step}"), most // step
            loops.append(KLoop(trip, a_step, line, rest, most=most))
        loops, a, b = guarded(self, cursor, size, unit, loops, a, b)
        rows = tuple(sum(label.a * unit * i for label, i in row) for row in self.rows(size))
        form = "pair" if p.dot else "bf16" if c.a.dtype is DType.BF16 else "f32"
        micro = Micro(
            self.t.lanes, rows, c.columns, self.t.lanes, form, "pair" if p.dot else "f32", a_vectors="one",
            b_padded=True, body=body_of(0, p.compact), ahead=self._next_tile(size) * unit,
        )  # fmt: skip
        sums = Accumulation(fn, micro).run(loops, a, b)
        return [across(fn, self.t.lanes, sums[i : i + c.columns]) for i in range(0, len(sums), c.columns)]

    def _next_tile(self, size: int) -> int:
        """The prefetch distance in elements of a: to the next tile's rows; 0 if prefetching does not pay."""
        split = self.t.split
        wanted = self.p.streams and split is not None and len(self.c.k) == 1 and self.c.columns >= NARROW_FETCHING
        return split.a * size if wanted and split else 0

    def _along_rows(self, cursor: Cursor, size: int) -> list[Value]:
        fn, c, lanes = self.fn, self.c, self.t.lanes
        assert c.lane is not None
        a = self.address(self.pa, "a", c.a.dtype.bytes, c.a.offset, cursor)
        b = self.address(self.pb, "b", c.b.dtype.bytes, c.b.offset, cursor)
        one, many = ("bf16" if x.dtype is DType.BF16 else "f32" for x in (c.b, c.a))
        loops = [
            KLoop(self.trip(cursor, x), x.b * c.b.dtype.bytes, x.a * c.a.dtype.bytes, most=self.most(cursor, x))
            for x in c.k
        ]
        columns = tuple(c.lane.b * SIZE[one] * i for i in range(c.columns))
        vectors = -(-size // lanes)
        micro = Micro(
            lanes, columns, vectors, size - (vectors - 1) * lanes, one, many, body=body_of(0, self.p.compact),
            b_ahead=loops[-1].b * NARROW_AHEAD if self.p.streams and abs(loops[-1].b) >= STRIDED_BYTES else 0,
        )  # fmt: skip
        sums = Accumulation(fn, micro).run(loops, b, a)
        rows = []
        for v in range(vectors):
            square = [*sums[v::vectors], *["zeroinitializer"] * (lanes - c.columns)]
            rows += transpose(fn, "float", square)
        return rows[:size]


def across(fn: Function, lanes: int, sums: Sequence[Value]) -> Value:
    """Horizontal sums: a vector whose lane i is the sum of the lanes of vector i. Pairs of vectors are folded into one
    until one is left, whose lanes are then added up."""
    vector, several = f"<{lanes} x float>", list(sums)
    several += ["zeroinitializer"] * ((1 << (len(several) - 1).bit_length()) - len(several))
    width = lanes

    def shuffled(x: Value, y: Value, order: Callable[[int], int]) -> Value:
        places = ", ".join(f"i32 {order(i)}" for i in range(lanes))
        return fn.op(f"shufflevector {vector} {x}, {vector} {y}, <{lanes} x i32> <{places}>")

    while len(several) > 1:
        half, width = len(several) // 2, width // 2

        def lower(i: int, width: int = width) -> int:
            return i if not i & width else i - width + lanes

        def upper(i: int, width: int = width) -> int:
            return i + width if not i & width else i + lanes

        several = [
            fn.op(f"fadd {vector} {shuffled(x, y, lower)}, {shuffled(x, y, upper)}")
            for x, y in zip(several[:half], several[half:], strict=True)
        ]
    (total,), apart = several, width
    while width > 1:
        width //= 2
        total = fn.op(f"fadd {vector} {total}, {shuffled(total, 'poison', width.__xor__)}")
    return shuffled(total, "poison", lambda i: i * apart % lanes) if apart > 1 else total


def vector_steps(p: Plan) -> int:
    """Steps of the sum per vector."""
    return p.tiling.lanes * (2 if p.dot else 1)


def packed_lines(c: Canonical, p: Plan) -> list[int]:
    """Strides in bytes of the sum's labels in the packed columns (of the last label, per vector)."""
    lines: list[int] = []
    line = c.columns * p.tiling.lanes * 4
    for label in reversed(c.k):
        lines.insert(0, line)
        if label is not c.k[0]:
            assert isinstance(label.extent, int)
            line *= -(-label.extent // vector_steps(p)) if label is c.k[-1] else label.extent
    return lines


def _vectors(c: Canonical, p: Plan) -> int:
    assert isinstance(c.k[-1].extent, int)
    return -(-c.k[-1].extent // vector_steps(p))


def _packed_place(kernel: TileLoops, cursor: Cursor) -> Value:
    """A tile's offset in the packed columns: [outer labels][labels of the sum][vector][column][lane]."""
    fn, c, p = kernel.fn, kernel.c, kernel.p
    index, lines = kernel.packed_index(c.outer, cursor), packed_lines(c, p)
    first = _vectors(c, p) if len(c.k) == 1 else c.k[0].extent
    offset = fn.mul(index, kernel.number(ext.mul(first, lines[0])))
    if cursor.chunk_label is not None:
        start = cursor.starts[cursor.chunk_label.key]
        if len(c.k) == 1:
            start = fn.div(start, vector_steps(p))
        offset = fn.add(offset, fn.mul(start, lines[0]))
    return offset


def pack_columns(
    c: Canonical, p: Plan, name: str, source: CallBuffer, temp: Callable[[Extent], CallBuffer]
) -> ContractionCall:  # fmt: skip
    """The call that packs b in the layout of `_packed_place`, with zeros past the last label's end. A work item is one
    index of each other label."""
    kernel = TileLoops(c, p, name)
    fn, last, steps = kernel.fn, c.k[-1], vector_steps(p)
    raw, packed = fn.buffer(0), fn.buffer(1)
    labels, vectors = [*c.outer, *c.k[:-1]], _vectors(c, p)
    assert isinstance(last.extent, int)
    element, size = ("i16", 2) if c.b.dtype is DType.BF16 else ("i32", 4)
    widens = element == "i16" and not p.dot
    with fn.loop("%begin", "%end") as item:
        index, offset = item.index, str(c.b.offset)
        for label in reversed(labels):
            inner = index
            if label is not labels[0]:
                count = kernel.number(label.extent)
                inner, index = fn.rem(index, count), fn.div(index, count)
            offset = fn.add(offset, fn.mul(inner, label.b))
        target = fn.ptradd(packed, fn.mul(item.index, vectors * c.columns * p.tiling.lanes * 4))
        with fn.loop("0", str(vectors)) as v, fn.loop("0", str(c.columns)) as column, fn.loop("0", str(steps)) as lane:
            along = fn.add(fn.mul(v.index, steps), lane.index)
            inside = fn.less(along, str(last.extent))
            along = fn.minimum(along, str(last.extent - 1))
            where = fn.add(offset, fn.mul(column.index, c.lane.b if c.lane else 0))
            where = fn.add(where, fn.mul(along, last.b))
            value = fn.load(element, fn.offset(raw, element, where), size)
            value = fn.op(f"select i1 {inside}, {element} {value}, {element} 0")
            if widens:
                value = widen_one(fn, value)
            to = fn.add(fn.mul(v.index, c.columns), column.index)
            to = fn.add(fn.mul(to, steps), lane.index)
            stored = "i32" if widens else element
            fn.store(stored, value, fn.offset(target, stored, to), 4 if widens else size)
    items = ext.product(x.extent for x in labels)
    buffer = temp(ext.mul(items, vectors * c.columns * p.tiling.lanes * 4))
    share = max(1, THREAD_ELEMENTS // (vectors * c.columns * steps))
    return ContractionCall(fn, (source, buffer), items, min(share, max(1, nominal(items))))
