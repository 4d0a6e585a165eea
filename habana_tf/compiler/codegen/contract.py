"""Machine code for CONTRACT: matrix products, convolutions and their gradients over affine operands.

`emit_contract` writes the kernels of one contraction as LLVM IR:

    [spread a]  [pack b]  main: tiles of sums -> epilogue            the sum in one piece
    [spread a]  [pack b]  main: tiles of partial sums; reduce: partial sums in fixed order -> epilogue

What is cut how is `contract_tiles.plan`'s decision; the register tile is `contract_micro`'s, the packed copies are
`contract_pack`'s. Products and sums are fp32 (fused multiply-add where the CPU has it); a bf16 result is rounded once.

Invariants: what is computed depends on the spec and the target, never on the number of threads or on the grid's cut;
nothing outside the operands' index ranges is read (bf16 pairs read two neighbours that both are in range).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product

from habana_tf.hardware.cpu import Target

from ..dtypes import DType
from .contract_micro import Accumulation, KLoop, Micro, at, masked_load, repeat
from .contract_pack import SPREAD, PanelPacker, spread
from .contract_point import Epilogue, Point, StorePartial, StoreResult, Tile
from .contract_spec import Canonical, ContractSpec, Label, Operand, canonical
from .contract_tiles import Dim, Plan, plan
from .emit import Function, Value

__all__ = ["ContractCode", "ContractSpec", "Epilogue", "KernelCall", "Operand", "Point", "emit_contract"]


@dataclass(frozen=True)
class KernelCall:
    """One kernel launch. `buffers` are "a", "b", "out", ("temp", i), or what the epilogue asked for."""

    function: Function
    buffers: tuple[object, ...]
    grid: int
    grain: int

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def ir(self) -> str:
        return self.function.text()


@dataclass(frozen=True)
class ContractCode:
    """The calls in order, each finished before the next begins; `temps` are workspace sizes in bytes.

    An empty result has no calls and no plan.
    """

    calls: tuple[KernelCall, ...]
    temps: tuple[int, ...]
    plan: Plan | None

    @property
    def declarations(self) -> frozenset[str]:
        return frozenset(d for call in self.calls for d in call.function.declarations)


def emit_contract(
    spec: ContractSpec, target: Target, name: str, epilogue: Epilogue | None = None, cut: Plan | None = None
) -> ContractCode:
    """The kernels of one contraction; function names begin with `name`. `cut` overrides the chosen plan."""
    c = canonical(spec)
    if any(not x.extent for x in c.labels() if x.kind != "k"):
        return ContractCode((), (), None)
    p = cut or plan(c, target)
    final = epilogue or StoreResult(c, target.avx512_bf16)
    calls: list[KernelCall] = []
    temps: list[int] = []

    def temp(nbytes: int) -> tuple[str, int]:
        temps.append(nbytes)
        return "temp", len(temps) - 1

    names = ("b", "a") if c.swapped else ("a", "b")
    a = _Source("bf16" if c.a.dtype is DType.BF16 else "f32", c.a.dtype.bytes, c.a.offset, names[0])
    b = _Source("bf16" if c.b.dtype is DType.BF16 else "f32", c.b.dtype.bytes, c.b.offset, names[1])
    if p.dot and c.k[-1].a == 1:
        a = _Source("pair", 2, c.a.offset, names[0])
    elif p.dot or p.widen:
        calls.append(_spread_call(c, p, f"{name}_spread", names[0], temp))
        a = _Source("pair" if p.dot else "f32", 4, -_reach(c)[0], calls[-1].buffers[1])
    if p.pack == "call":
        calls.append(_pack_call(c, p, f"{name}_pack", names[1], temp))
        b = _Source("pair" if p.dot else "f32", 4, 0, calls[-1].buffers[1])
    partial = None
    if p.chunks > 1:
        partial = StorePartial(c, len(temps))
        temp(p.chunks * partial.size * 4)
    calls.append(_Kernel(c, p, name, a, b, partial or final, partial).emit())
    if partial:
        calls.append(_reduce_call(c, p, f"{name}_sum", partial, final))
    return ContractCode(tuple(calls), tuple(temps), p)


@dataclass(frozen=True)
class _Source:
    """How the micro-kernel reads an operand: format, bytes per stride unit, constant offset, buffer."""

    form: str
    unit: int
    offset: int
    buffer: object


@dataclass
class _Place:
    """Where in the loops the code being emitted is."""

    starts: dict[int, Value] = field(default_factory=dict)
    row_tile: Value = "0"
    row_tiles: tuple[Value, Value] | None = None
    panel: Value = "0"
    chunk: Value = "0"
    chunk_label: Label | None = None
    chunk_trip: int | Value = 0


_Body = Callable[[_Place, int, int, int], None]


class _Kernel:
    """The main kernel: loops over tiles around the micro-kernel."""

    def __init__(
        self, c: Canonical, p: Plan, name: str, a: _Source, b: _Source, out: Epilogue, partial: StorePartial | None
    ) -> None:
        self.c, self.p, self.t = c, p, p.tiling
        self.a, self.b, self.out, self.partial = a, b, out, partial
        self.fn = Function(name)
        self.packer = _packer(self.fn, c, p)

    def emit(self) -> KernelCall:
        fn, p = self.fn, self.p
        buffers = (self.a.buffer, self.b.buffer, *self.out.buffers)
        if p.pack == "item":
            steps = self.packer.steps(self.c.k)
            size = steps[0] * _chunk_extent(self.c, p) if self.c.k else p.tiling.width * 4
            self.stack = fn.op(f"alloca [{size} x i8], align 64")
        self.pa, self.pb = fn.buffer(0), fn.buffer(1)
        self.out.begin(fn, [fn.buffer(2 + i) for i in range(len(self.out.buffers))])
        with fn.loop("%begin", "%end") as item:
            place = _Place()
            self._decode(item.index, place)
            self._inner(p.dims[p.grid_dims :], place)
        return KernelCall(fn, buffers, p.grid, p.grain)

    # -- loops ------------------------------------------------------------------------------------------------

    def _decode(self, item: Value, place: _Place) -> None:
        """Sets `place` from a work item's number (its last grid dimension varies fastest)."""
        dims = self.p.dims[: self.p.grid_dims]
        entered = []
        for i, dim in reversed(list(enumerate(dims))):
            index = item
            if i:
                index = self.fn.int("urem", item, dim.count) if dim.count > 1 else "0"
                item = self.fn.int("udiv", item, dim.count)
            entered.append((dim, index))
        for dim, index in reversed(entered):
            self._enter(dim, index, place)

    def _enter(self, dim: Dim, index: Value, place: _Place) -> None:
        fn, t = self.fn, self.t
        if dim.kind == "rowblock":
            low = fn.int("mul", index, dim.size)
            place.row_tiles = low, fn.minimum(fn.int("add", low, dim.size), str(t.tiles))
            return
        assert dim.label is not None
        start = index
        if dim.kind == "rows":
            place.row_tile = index
            start = fn.int("mul", index, t.size)
            if t.large < t.tiles:
                beyond = fn.int("sub", index, t.large)
                positive = fn.op(f"call i64 @llvm.smax.i64(i64 {beyond}, i64 0)")
                fn.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
                start = fn.int("sub", start, positive)
        elif dim.kind == "panels":
            place.panel = index
            start = fn.int("mul", index, t.width)
        elif dim.kind == "chunk":
            start = fn.int("mul", index, dim.size)
            place.chunk, place.chunk_label, place.chunk_trip = index, dim.label, dim.size
            if dim.label.extent % dim.size:
                place.chunk_trip = fn.minimum(fn.int("sub", dim.label.extent, start), str(dim.size))
        place.starts[dim.label.key] = start

    def _inner(self, dims: tuple[Dim, ...], place: _Place) -> None:
        if self.p.pack == "item" and len(dims) == len(self.p.dims) - self.p.grid_dims:
            self._variants(place, (False, True), self._pack)
        if not dims:
            self._variants(place, (True, True), self._tile)
            return
        dim = dims[0]
        low, high = "0", str(dim.count)
        if dim.kind == "rows" and place.row_tiles:
            low, high = place.row_tiles
        with self.fn.loop(low, high) as loop:
            self._enter(dim, loop.index, place)
            self._inner(dims[1:], place)

    def _variants(self, place: _Place, by: tuple[bool, bool], body: _Body) -> None:
        """Emits `body(place, row tile size, vectors, active lanes)` for each form the tile may have here."""
        t = self.t
        sizes = [(t.size, t.large)] + ([(t.size - 1, t.tiles)] if t.large < t.tiles else [])
        full = (t.vectors, t.lanes)
        tail = (t.tail_vectors, t.tail_active)
        widths = [tail] if t.panels == 1 or full == tail else [full, tail]

        def columns(size: int) -> None:
            with self._choice(place.panel, t.panels - 1, len(widths)) as choose:
                for vectors, active in widths:
                    with choose():
                        body(place, size, vectors, active)

        if not by[0]:
            columns(t.size)
            return
        with self._choice(place.row_tile, t.large, len(sizes)) as choose:
            for size, _ in sizes:
                with choose():
                    columns(size)

    @contextmanager
    def _choice(self, value: Value, below: int, forms: int) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Two branches, the first for value < below; or one without a test."""
        fn = self.fn
        if forms == 1:

            @contextmanager
            def only() -> Iterator[None]:
                yield

            yield only
            return
        blocks = [fn.new_block("first"), fn.new_block("second")]
        after = fn.new_block("chosen")
        test = fn.less(value, str(below))
        fn.do(f"br i1 {test}, label %{blocks[0]}, label %{blocks[1]}")

        @contextmanager
        def next_() -> Iterator[None]:
            fn.start(blocks.pop(0))
            yield
            fn.branch(after)

        yield next_
        fn.start(after)

    # -- bodies -----------------------------------------------------------------------------------------------

    def _pack(self, place: _Place, size: int, vectors: int, active: int) -> None:
        source = self._address(self.pb, "b", self.c.b.dtype.bytes, self.c.b.offset, place)
        trips = [place.chunk_trip if x is place.chunk_label else x.extent for x in self.c.k]
        self.packer.pack(self.c.k, trips, source, self.stack, vectors, active)

    def _address(self, pointer: Value, side: str, unit: int, offset: int, place: _Place) -> Value:
        fn, total = self.fn, str(offset)
        for label in self.c.labels():
            step = getattr(label, side)
            if step and label.key in place.starts:
                total = fn.int("add", total, fn.int("mul", place.starts[label.key], step))
        return at(fn, pointer, fn.int("mul", total, unit))

    def _tile(self, place: _Place, size: int, vectors: int, active: int) -> None:
        fn, c, p = self.fn, self.c, self.p
        rows = _rows(c, p, size)
        a = self._address(self.pa, "a", self.a.unit, self.a.offset, place)
        if p.pack == "none":
            b = self._address(self.pb, "b", self.b.unit, self.b.offset, place)
            b_steps = [x.b * self.b.unit for x in c.k]
            b_form = self.b.form
        else:
            b = self.stack if p.pack == "item" else self._packed(place)
            b_steps = self.packer.steps(c.k)
            b_form = "pair" if p.dot else "f32"
        loops = []
        for label, step in zip(c.k, b_steps, strict=True):
            trip: int | Value = place.chunk_trip if label is place.chunk_label else label.extent
            half = False
            a_step = label.a * self.a.unit
            if p.dot and label is c.k[-1]:
                half = label.extent % 2 == 1
                trip = trip // 2 if isinstance(trip, int) else fn.op(f"lshr i64 {trip}, 1")
                a_step *= 2
            loops.append(KLoop(trip, a_step, step, half))
        micro = Micro(
            self.t.lanes,
            tuple(sum(label.a * self.a.unit * i for label, i in row) for row in rows),
            vectors,
            active,
            self.a.form,
            b_form,
            a_vector=c.lane in c.batch if c.lane else False,
            b_padded=p.pack != "none",
        )
        sums = Accumulation(fn, micro).run(loops, a, b)
        _finish(fn, c, p, self.out, self.partial, place, rows, vectors, active, sums)

    def _packed(self, place: _Place) -> Value:
        """The panel's place in the packed copy of b: [outer b labels][panel][k][width]."""
        fn = self.fn
        index = "0"
        for label in _pack_outer(self.c):
            index = fn.int("add", fn.int("mul", index, label.extent), place.starts[label.key])
        index = fn.int("add", fn.int("mul", index, self.t.panels), place.panel)
        steps = self.packer.steps(self.c.k)
        offset = fn.int("mul", index, _panel_bytes(self.c, self.p))
        if place.chunk_label is not None:
            step = steps[0] // 2 if self.p.dot and len(steps) == 1 else steps[0]
            offset = fn.int("add", offset, fn.int("mul", place.starts[place.chunk_label.key], step))
        return at(fn, self.pb, offset)


def _finish(
    fn: Function, c: Canonical, p: Plan, out: Epilogue, partial: StorePartial | None, place: _Place,
    rows: list[tuple[tuple[Label, int], ...]], vectors: int, active: int, sums: list[Value],
) -> None:  # fmt: skip
    """Hands a tile's final sums to the epilogue."""
    lanes = p.tiling.lanes
    tile = Tile(fn, c, dict(place.starts))
    if partial is not None:
        partial.chunk = place.chunk
    for r, row in enumerate(rows):
        for v in range(vectors):
            within = {label.key: i for label, i in row}
            if c.lane:
                within[c.lane.key] = v * lanes
            valid = active if v == vectors - 1 else lanes
            out.vector(fn, Point(sums[r * vectors + v], lanes, valid, tile, within))


def _rows(c: Canonical, p: Plan, size: int) -> list[tuple[tuple[Label, int], ...]]:
    """The tile's rows: per row its index along each label of the tile."""
    labels = [(p.tiling.split, size)] if p.tiling.split else []
    labels += [(x, x.extent) for x in p.tiling.whole]
    labels.sort(key=lambda pair: c.m.index(pair[0]))
    return [
        tuple((label, i) for (label, _), i in zip(labels, point, strict=True))
        for point in product(*(range(extent) for _, extent in labels))
    ]


def _chunk_extent(c: Canonical, p: Plan) -> int:
    """Steps of the packed copy along the first k label."""
    extent = next((d.size for d in p.dims if d.kind == "chunk"), c.k[0].extent)
    return -(-extent // 2) if p.dot and len(c.k) == 1 else extent


def _packer(fn: Function, c: Canonical, p: Plan) -> PanelPacker:
    column = c.lane.b if c.lane else 1
    return PanelPacker(fn, c.b.dtype, p.tiling.lanes, p.tiling.width, p.dot, column)


def _panel_bytes(c: Canonical, p: Plan) -> int:
    if not c.k:
        return p.tiling.width * 4
    extent = -(-c.k[0].extent // 2) if p.dot and len(c.k) == 1 else c.k[0].extent
    return _packer(Function(""), c, p).steps(c.k)[0] * extent


def _pack_outer(c: Canonical) -> list[Label]:
    return [x for x in (*c.batch, *c.n) if x is not c.lane]


def _pack_call(c: Canonical, p: Plan, name: str, source: object, temp: Callable[[int], object]) -> KernelCall:
    """Packs all of b: one work item per panel and block of the first k label."""
    outer = _pack_outer(c)
    panels = math.prod(x.extent for x in outer) * p.tiling.panels
    words = panels * _panel_bytes(c, p) // 4
    blocks = max(1, min(words // 32768, 64))
    dims = [Dim("label", x.extent, x) for x in outer]
    if c.lane:
        dims.append(Dim("panels", p.tiling.panels, c.lane))
    if c.k and blocks > 1:
        size = -(-c.k[0].extent // -(-blocks // panels))
        if len(c.k) == 1:
            size = -(-size // 64) * 64
        if size < c.k[0].extent:
            dims.insert(0, Dim("chunk", -(-c.k[0].extent // size), c.k[0], size))
    whole = replace(p, dims=tuple(dims), grid_dims=len(dims), chunks=1)
    buffer = temp(panels * _panel_bytes(c, p))
    kernel = _PackKernel(c, whole, name, source, buffer)
    return kernel.emit()


class _PackKernel(_Kernel):
    """Packs b for all tiles of the next call."""

    def __init__(self, c: Canonical, p: Plan, name: str, source: object, buffer: object) -> None:
        unused = StorePartial(c, 0)
        b = _Source("", 4, 0, buffer)
        super().__init__(c, p, name, _Source("", 4, 0, source), b, unused, None)

    def emit(self) -> KernelCall:
        fn, p = self.fn, self.p
        raw, self.pb = fn.buffer(0), fn.buffer(1)
        with fn.loop("%begin", "%end") as item:
            place = _Place()
            self._decode(item.index, place)
            self.raw = raw
            self._variants(place, (False, True), self._pack)
        words = math.prod(x.extent for x in (*_pack_outer(self.c), *self.c.k)) * self.c.columns
        return KernelCall(fn, (self.a.buffer, self.b.buffer), p.grid, max(1, p.grid * 16384 // words))

    def _pack(self, place: _Place, size: int, vectors: int, active: int) -> None:
        source = self._address(self.raw, "b", self.c.b.dtype.bytes, self.c.b.offset, place)
        trips = [place.chunk_trip if x is place.chunk_label else x.extent for x in self.c.k]
        self.packer.pack(self.c.k, trips, source, self._packed(place), vectors, active)


def _reach(c: Canonical) -> tuple[int, int]:
    """Lowest and highest element offset of a, relative to its constant offset."""
    reaches = [x.a * (x.extent - 1) for x in c.labels()]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0)


def _spread_call(c: Canonical, p: Plan, name: str, source: object, temp: Callable[[int], object]) -> KernelCall:
    low, high = (c.a.offset + r for r in _reach(c))
    fn = Function(name)
    spread(fn, low, high, c.k[-1].a if p.dot else None, p.tiling.lanes)
    count = high - low + 1
    buffer = temp(count * 4)
    return KernelCall(fn, (source, buffer), -(-count // SPREAD), 4)


def _reduce_call(c: Canonical, p: Plan, name: str, partial: StorePartial, final: Epilogue) -> KernelCall:
    """Adds the chunks' partial sums in order and runs the epilogue."""
    dims = tuple(d for d in p.dims if d.kind not in ("chunk", "rowblock"))
    grid_dims, grid = 0, 1
    while grid_dims < len(dims) and grid < 64:
        grid *= dims[grid_dims].count
        grid_dims += 1
    whole = replace(p, dims=dims, grid_dims=grid_dims, pack="none", dot=False, chunks=1)
    kernel = _ReduceKernel(c, whole, name, _Source("f32", 4, 0, partial.buffers[0]), partial, final, p.chunks)
    return kernel.emit()


class _ReduceKernel(_Kernel):
    def __init__(
        self, c: Canonical, p: Plan, name: str, source: _Source, partial: StorePartial, final: Epilogue, chunks: int
    ) -> None:
        super().__init__(c, p, name, source, source, final, None)
        self.layout, self.chunks = partial, chunks

    def emit(self) -> KernelCall:
        fn, p = self.fn, self.p
        self.pa = fn.buffer(0)
        self.out.begin(fn, [fn.buffer(1 + i) for i in range(len(self.out.buffers))])
        with fn.loop("%begin", "%end") as item:
            place = _Place()
            self._decode(item.index, place)
            self._inner(p.dims[p.grid_dims :], place)
        share = max(1, p.grid * 32768 // (self.chunks * self.layout.size))
        return KernelCall(fn, (self.a.buffer, *self.out.buffers), p.grid, min(share, max(1, p.grid)))

    def _tile(self, place: _Place, size: int, vectors: int, active: int) -> None:
        fn, c, lanes = self.fn, self.c, self.t.lanes
        rows = _rows(c, self.p, size)
        tile = Tile(fn, c, dict(place.starts))
        type_ = f"<{lanes} x float>"
        where = []
        for row in rows:
            for v in range(vectors):
                within = {label.key: i for label, i in row}
                if c.lane:
                    within[c.lane.key] = v * lanes
                valid = active if v == vectors - 1 else lanes
                where.append(Point("", lanes, valid, tile, within))
        offsets = [p.offset(self.layout.strides) for p in where]
        pointers = [fn.offset(self.pa, "float", o) for o in offsets]
        first = [masked_load(fn, "float", lanes, x, p.mask) for x, p in zip(pointers, where, strict=True)]
        with repeat(fn, self.chunks - 1, [("i64", str(self.layout.size * 4)), *((type_, x) for x in first)]) as t:
            shift, *sums = t.carried
            following = [
                fn.op(f"fadd {type_} {s}, {masked_load(fn, 'float', lanes, at(fn, x, shift), p.mask)}")
                for s, x, p in zip(sums, pointers, where, strict=True)
            ]
            t.next = [fn.int("add", shift, self.layout.size * 4), *following]
        _finish(fn, c, self.p, self.out, None, place, rows, vectors, active, t.next[1:])
