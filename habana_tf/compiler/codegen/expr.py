"""Evaluates a tree of maps and views at an index: the body of every loop kernel and every epilogue.

`Evaluator.value(node, index)` emits what computes one element of `node`, or `lanes` neighbouring ones along the
vector variable. A value that does not depend on the vector variable stays a scalar (*uniform*) until it meets one
that does. Nodes that are kept in memory are loaded; all others are computed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from .. import extent as ext
from ..dtypes import DType
from ..extent import Expr, Extent, Var
from ..ir import Node, Op
from ..views import Index, Range, Unfit, source_of, strides
from .emit import Function, Value
from .lanes import literal, memory_type, register_type
from .scalar import Scalar

_MOVES = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SLICE, Op.WINDOW})
"""Views whose element is an element of their source, whatever the index."""


class Val(NamedTuple):
    """An emitted value: its register, and whether it is one scalar for all lanes."""

    name: Value
    uniform: bool


@dataclass
class Guard:
    """What must hold for a load to be inside its tensor: a scalar condition and a condition per lane."""

    scalar: Value | None = None
    lanes: Value | None = None


def extent_value(fn: Function, e: Extent) -> Value:
    """An extent as i64, at the present place of a function."""
    return Evaluator(fn, {}, 1, None).number(e)


class Evaluator:
    """Emits values of nodes inside one function.

    buffers: for each node kept in memory, the number of its buffer in the kernel's list. vector: the variable whose
    neighbouring values fill the lanes.
    """

    def __init__(self, fn: Function, buffers: Mapping[Node, int], lanes: int, vector: Var | None) -> None:
        self.fn = fn
        self.buffers = buffers
        self.lanes = lanes if vector is not None else 1
        self.vector = vector
        self.one = Scalar(fn, 1)
        self.many = Scalar(fn, self.lanes)
        self.vars: dict[Var, Value] = {}
        self.guard = Guard()
        self.written: set[int] = set()
        self.pointers: dict[int, Value] = {}
        self._known: list[dict[object, Val]] = [{}]
        self._numbers: list[dict[Extent, Value]] = [{}]

    # -- scopes ---------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values emitted inside are forgotten afterwards (they live in a block that does not dominate)."""
        self._known.append({})
        self._numbers.append({})
        yield
        self._known.pop()
        self._numbers.pop()

    @contextmanager
    def guarded(self, guard: Guard) -> Iterator[None]:
        outer, self.guard = self.guard, guard
        with self.scope():
            yield
        self.guard = outer

    def define(self, node: Node, index: Index, value: Val) -> None:
        """Says that `node` at `index` is already in a register in this scope."""
        self._known[-1][node, index] = value

    # -- integers -------------------------------------------------------------------------------------------

    def number(self, e: Extent) -> Value:
        """An index expression as a scalar i64 (the vector variable stands for its first lane)."""
        if isinstance(e, int):
            return str(e)
        for known in self._numbers:
            if e in known:
                return known[e]
        total: Value = "0"
        for atom, c in e.terms:
            total = self.fn.integer("add", total, self.fn.integer("mul", self._atom(atom), c))
        total = self.fn.integer("add", total, e.const)
        self._numbers[-1][e] = total
        return total

    def extent(self, e: Extent) -> Value:
        """A symbolic extent, which depends on no loop, as i64."""
        return Evaluator.number(self, e)

    def _atom(self, atom: ext.Atom) -> Value:
        match atom:
            case Var():
                return self.vars[atom]
            case ext.Sym(index=index):
                return self.fn.dim(index)
            case ext.Prod(factors=factors):
                out: Value = "1"
                for f in factors:
                    out = self.fn.integer("mul", out, self._atom(f))
                return out
            case ext.Div(value=value, by=by):
                if ext.is_size(value) and ext.bounds(value)[0] < 0:
                    return self._floor(self.number(value), by)
                return self.fn.integer("udiv", self.number(value), by)
            case ext.Mod(value=value, by=by):
                n = self.number(value)
                if ext.is_size(value) and ext.bounds(value)[0] < 0:
                    return self.fn.integer("sub", n, self.fn.integer("mul", self._floor(n, by), by))
                return self.fn.op(f"urem i64 {n}, {by}")

    def _floor(self, n: Value, by: int) -> Value:
        """Floor division of sizes, which may be less than nothing: a difference of two of them."""
        below = self.fn.op(f"ashr i64 {n}, 63")  # -1 below 0: of a number -1 - n the quotient is turned round as well
        turned = self.fn.op(f"xor i64 {n}, {below}")
        return self.fn.op(f"xor i64 {self.fn.op(f'udiv i64 {turned}, {by}')}, {below}")

    def stride(self, e: Extent) -> int | None:
        """By how much an index expression grows from lane to lane; None when not by a constant."""
        return 0 if self.vector is None else ext.stride_of(e, self.vector)

    def depends(self, e: Extent) -> bool:
        """Whether an index expression differs between lanes."""
        return self.stride(e) != 0

    def numbers(self, e: Extent) -> Value:
        """An index expression as one i64 per lane."""
        if not self.depends(e):
            return self.fn.splat(self.lanes, "i64", self.number(e))
        assert isinstance(e, Expr)
        stride = self.stride(e)
        if stride is not None:
            start = self.fn.splat(self.lanes, "i64", self.number(e))
            steps = "<" + ", ".join(f"i64 {k * stride}" for k in range(self.lanes)) + ">" if self.lanes > 1 else "0"
            return self.many.op("add", start, steps, "i64")
        total = self.many.constant(str(e.const), "i64")
        for atom, c in e.terms:
            term = self._atoms(atom)
            term = term if c == 1 else self.many.op("mul", term, self.many.constant(str(c), "i64"), "i64")
            total = self.many.op("add", total, term, "i64")
        return total

    def _atoms(self, atom: ext.Atom) -> Value:
        if ext.is_size(ext.of(atom)):
            return self.fn.splat(self.lanes, "i64", self._atom(atom))
        match atom:
            case ext.Div(value=value, by=by):
                return self.many.op("udiv", self.numbers(value), self.many.constant(str(by), "i64"), "i64")
            case ext.Mod(value=value, by=by):
                return self.many.op("urem", self.numbers(value), self.many.constant(str(by), "i64"), "i64")
            case ext.Prod(factors=factors):
                out = self._atoms(factors[0])
                for f in factors[1:]:
                    out = self.many.op("mul", out, self._atoms(f), "i64")
                return out
        return self.numbers(ext.of(atom))

    # -- values ---------------------------------------------------------------------------------------------

    def value(self, node: Node, index: Index) -> Val:
        """`node` at `index`, in register form.

        Sources come first, off a stack of its own: a chain of maps and views is as long as the program made it.
        """
        found = self._find((node, index))
        if found is not None:
            return found
        stack: list[tuple[Node, Index, list[tuple[Node, Index]] | None]] = [(node, index, None)]
        while True:
            node, index, sources = stack.pop()
            found = self._find((node, index))
            if found is None and sources is None:
                sources = self._sources(node, index)
                stack.append((node, index, sources))
                stack.extend((s, i, None) for s, i in reversed(sources))
                continue
            if found is None:
                moves = sources and node.op in _MOVES
                found = self._find(sources[0]) if sources and moves else self._value(node, index)
                assert found is not None
                self._known[-1][node, index] = found
            if not stack:
                return found

    def _find(self, key: tuple[Node, Index]) -> Val | None:
        for known in self._known:
            if key in known:
                return known[key]
        return None

    def _sources(self, node: Node, index: Index) -> list[tuple[Node, Index]]:
        """What `_value` will ask for under the guard that holds now, in the order in which it will."""
        if node in self.buffers:
            return []
        match node.op:
            case Op.MAP:
                return [(s, index) for s in node.src]
            case Op.GATHER if node.src[0].numel != 0:
                return [(c, index[: c.rank]) for c in node.src[1:]]
            case op if op in _MOVES and not (op is Op.RESHAPE and node.src[0] in self.buffers):
                source, inner, _ = source_of(node, index)
                return [(source, inner)]
        return []

    def vector_of(self, node: Node, index: Index) -> Value:
        """`node` at `index` with a value in every lane."""
        return self.spread(self.value(node, index), register_type(node.dtype))

    def spread(self, value: Val, lane: str) -> Value:
        return self.fn.splat(self.lanes, lane, value.name) if value.uniform else value.name

    def _value(self, node: Node, index: Index) -> Val:
        if node in self.buffers:
            return self.load(self.buffers[node], node.dtype, ext.ravel(index, node.shape))
        match node.op:
            case Op.CONST:
                value = float.fromhex(node.arg) if isinstance(node.arg, str) else node.arg
                return Val(literal(value, node.dtype), True)
            case Op.IOTA:
                return self._index_value(index[0], node.dtype)
            case Op.EXTENT:
                return Val(self.one.cast(self.extent(node.arg), DType.I64, node.dtype), True)
            case Op.MAP:
                return self._map(node, index)
            case Op.GATHER:
                return self._gather(node, index)
            case Op.CONCAT:
                return self._concat(node, index)
            case Op.RESHAPE if node.src[0] in self.buffers:
                source = node.src[0]
                return self.load(self.buffers[source], source.dtype, ext.ravel(index, node.shape))
            case Op.PAD:
                return self._pad(node, index)
        raise Unfit(f"{node.op.name.lower()} inside a fused loop")

    def _index_value(self, e: Extent, dtype: DType) -> Val:
        if self.depends(e):
            return Val(self.many.cast(self.numbers(e), DType.I64, dtype), False)
        return Val(self.one.cast(self.number(e), DType.I64, dtype), True)

    def _map(self, node: Node, index: Index) -> Val:
        args = [self.value(s, index) for s in node.src]
        data = node.src[1] if node.arg == "select" else node.src[0]
        if all(a.uniform for a in args):
            return Val(self.one.apply(node.arg, [a.name for a in args], data.dtype, node.dtype), True)
        wide = [self.spread(a, register_type(s.dtype)) for a, s in zip(args, node.src, strict=True)]
        return Val(self.many.apply(node.arg, wide, data.dtype, node.dtype), False)

    def _pad(self, node: Node, index: Index) -> Val:
        source, inner, ranges = source_of(node, index)
        padding = self.value(node.src[1], ())
        if source.numel == 0:
            return padding
        guard, inside = self.within(ranges)
        if inside is None:
            return self.value(source, inner)
        with self.guarded(guard):
            found = self.value(source, inner)
        return self.pick(inside, found, padding, node.dtype)

    def pick(self, condition: Val, yes: Val, no: Val, dtype: DType) -> Val:
        lane = register_type(dtype)
        if condition.uniform and yes.uniform and no.uniform:
            return Val(self.one.choose(condition.name, yes.name, no.name, lane), True)
        c = self.spread(condition, "i1")
        return Val(self.many.choose(c, self.spread(yes, lane), self.spread(no, lane), lane), False)

    def within(self, ranges: list[Range]) -> tuple[Guard, Val | None]:
        """The guard for loads under all `ranges` on top of the present one, and the ranges' own condition."""
        scalar: Value | None = None
        lanes: Value | None = None
        for r in ranges:
            low, high = ext.bounds(r.value)
            certain = low >= 0 and isinstance(r.stop, int) and high is not None and high < r.stop
            if certain and r.step == 1:
                continue
            if self.depends(r.value):
                v = self.numbers(r.value)
                stop = self.fn.splat(self.lanes, "i64", self.number(r.stop))
                c = self.many.op("icmp ult", v, stop, "i64")
                if r.step > 1:
                    rest = self.many.op("urem", v, self.many.constant(str(r.step), "i64"), "i64")
                    even = self.many.op("icmp eq", rest, self.many.constant("0", "i64"), "i64")
                    c = self.many.op("and", c, even, "i1")
                lanes = c if lanes is None else self.many.op("and", lanes, c, "i1")
            else:
                n = self.number(r.value)
                c = self.fn.op(f"icmp ult i64 {n}, {self.number(r.stop)}")
                if r.step > 1:
                    even = self.fn.op(f"icmp eq i64 {self.fn.op(f'urem i64 {n}, {r.step}')}, 0")
                    c = self.fn.op(f"and i1 {c}, {even}")
                scalar = c if scalar is None else self.fn.op(f"and i1 {scalar}, {c}")
        if scalar is None and lanes is None:
            return self.guard, None
        if lanes is None:
            assert scalar is not None
            inside = Val(scalar, True)
        else:
            own = lanes if scalar is None else self.many.op("and", lanes, self.fn.splat(self.lanes, "i1", scalar), "i1")
            inside = Val(own, False)
        outer = self.guard
        both = scalar
        if outer.scalar is not None:
            both = outer.scalar if scalar is None else self.fn.op(f"and i1 {outer.scalar}, {scalar}")
        wide = lanes
        if outer.lanes is not None:
            wide = outer.lanes if lanes is None else self.many.op("and", outer.lanes, lanes, "i1")
        return Guard(both, wide), inside

    def _concat(self, node: Node, index: Index) -> Val:
        axis = node.arg
        at = index[axis]
        out: Val | None = None
        start: Extent = 0
        for part in node.src:
            local = ext.add(at, ext.mul(start, -1))
            guard, inside = self.within([Range(local, part.shape[axis])])
            with self.guarded(guard):
                found = self.value(part, (*index[:axis], local, *index[axis + 1 :]))
            out = found if out is None or inside is None else self.pick(inside, found, out, node.dtype)
            start = ext.add(start, part.shape[axis])
        assert out is not None
        return out

    def _gather(self, node: Node, index: Index) -> Val:
        source, coords = node.src[0], node.src[1:]
        if source not in self.buffers:
            raise Unfit("gather from a tensor that is not kept in memory")
        if source.numel == 0:
            return Val(literal(0, node.dtype), True)
        lead = coords[0].rank
        rest = iter(index[lead:])
        steps = strides(source.shape)
        fixed: Extent = 0
        for axis in range(source.rank):
            if axis not in node.arg:
                fixed = ext.add(fixed, ext.mul(next(rest), steps[axis]))
        values = [(self.value(c, index[:lead]), c.dtype, axis) for c, axis in zip(coords, node.arg, strict=True)]
        uniform = all(v.uniform for v, _, _ in values)
        ops = self.one if uniform else self.many
        total: Value | None = None
        inside: Value | None = None
        for v, dtype, axis in values:
            at = ops.cast(v.name if uniform else self.spread(v, register_type(dtype)), dtype, DType.I64)
            size = self.number(source.shape[axis])
            size = size if uniform else self.fn.splat(self.lanes, "i64", size)
            ok = ops.op("icmp ult", at, size, "i64")
            inside = ok if inside is None else ops.op("and", inside, ok, "i1")
            step = self.number(steps[axis])
            part = ops.op("mul", at, step if uniform else self.fn.splat(self.lanes, "i64", step), "i64")
            total = part if total is None else ops.op("add", total, part, "i64")
        assert total is not None and inside is not None
        return self._load_gathered(node, source, total, inside, fixed, uniform)

    def _load_gathered(self, node: Node, source: Node, at: Value, ok: Value, fixed: Extent, uniform: bool) -> Val:
        condition = Val(ok, uniform)
        if uniform:
            both = ok if self.guard.scalar is None else self.fn.op(f"and i1 {self.guard.scalar}, {ok}")
            with self.guarded(Guard(both, self.guard.lanes)):
                base = self.fn.op(f"select i1 {both}, i64 {at}, i64 0")
                found = self.load(self.buffers[source], source.dtype, fixed, base)
        else:
            mask = ok if self.guard.lanes is None else self.many.op("and", self.guard.lanes, ok, "i1")
            with self.guarded(Guard(self.guard.scalar, mask)):
                offsets = self.many.op("add", at, self.numbers(fixed), "i64")
                found = self.load_lanes(self.buffers[source], source.dtype, offsets)
        return self.pick(condition, found, Val(literal(0, node.dtype), True), node.dtype)

    # -- memory ---------------------------------------------------------------------------------------------

    def pointer(self, buffer: int) -> Value:
        """The base pointer of a buffer (loaded in the entry block by `preload`)."""
        return self.pointers[buffer]

    def preload(self, count: int) -> None:
        """Loads the kernel's base pointers; call it first, in the entry block."""
        for k in range(count):
            self.pointers[k] = self.fn.buffer(k)

    def mask(self) -> Value | None:
        """The present guard as one i1 per lane; None when every lane is live."""
        scalar, lanes = self.guard.scalar, self.guard.lanes
        if scalar is None:
            return lanes
        wide = self.fn.splat(self.lanes, "i1", scalar)
        return wide if lanes is None else self.many.op("and", lanes, wide, "i1")

    def load(self, buffer: int, dtype: DType, offset: Extent, base: Value = "0") -> Val:
        """The element(s) at `base + offset` (in elements) of a buffer."""
        lane, size = memory_type(dtype), dtype.bytes
        invariant = buffer not in self.written
        stride = self.stride(offset)
        if stride == 0:
            at = self.fn.integer("add", base, self.number(offset))
            if self.guard.scalar is not None:
                at = self.fn.op(f"select i1 {self.guard.scalar}, i64 {at}, i64 0")
            raw = self.fn.load(lane, self.fn.offset(self.pointer(buffer), lane, at), size, invariant)
            return Val(self.one.from_memory(raw, dtype), True)
        if stride == 1:
            address = self.fn.offset(self.pointer(buffer), lane, self.fn.integer("add", base, self.number(offset)))
            vector = self.many.type(lane)
            mask = self.mask()
            if self.lanes == 1 or mask is None:
                if mask is not None:
                    return self._one_lane(buffer, dtype, self.fn.integer("add", base, self.number(offset)), mask)
                raw = self.fn.load(vector, address, size, invariant)
            else:
                raw = self.fn.masked_load(lane, self.lanes, address, mask)
            return Val(self.many.from_memory(raw, dtype), False)
        offsets = self.numbers(offset)
        if base != "0":
            offsets = self.many.op("add", offsets, self.fn.splat(self.lanes, "i64", base), "i64")
        return self.load_lanes(buffer, dtype, offsets)

    def _one_lane(self, buffer: int, dtype: DType, at: Value, mask: Value) -> Val:
        lane = memory_type(dtype)
        safe = self.fn.op(f"select i1 {mask}, i64 {at}, i64 0")
        raw = self.fn.load(lane, self.fn.offset(self.pointer(buffer), lane, safe), dtype.bytes)
        return Val(self.one.from_memory(raw, dtype), False)

    def load_lanes(self, buffer: int, dtype: DType, offsets: Value) -> Val:
        """One element per lane, at the lane's own offset."""
        lane, size = memory_type(dtype), dtype.bytes
        mask = self.mask()
        if self.lanes == 1:
            if mask is not None:
                return self._one_lane(buffer, dtype, offsets, mask)
            raw = self.fn.load(lane, self.fn.offset(self.pointer(buffer), lane, offsets), size)
            return Val(self.one.from_memory(raw, dtype), False)
        pointers = self.fn.op(f"getelementptr {lane}, ptr {self.pointer(buffer)}, <{self.lanes} x i64> {offsets}")
        raw = self.fn.gather(lane, self.lanes, pointers, mask or self.many.constant("true", "i1"))
        return Val(self.many.from_memory(raw, dtype), False)

    def store(self, buffer: int, dtype: DType, offset: Extent, value: Val) -> None:
        """Writes the lanes to `offset` (in elements) of a buffer; the offset must follow the vector variable."""
        lane, size = memory_type(dtype), dtype.bytes
        address = self.fn.offset(self.pointer(buffer), lane, self.number(offset))
        if self.lanes == 1:
            raw = self.one.to_memory(value.name, dtype)
            if self.guard.scalar is None and self.guard.lanes is None:
                self.fn.store(lane, raw, address, size)
            else:
                condition = self.mask()
                assert condition is not None
                with self.fn.when(condition):
                    self.fn.store(lane, raw, address, size)
            return
        raw = self.many.to_memory(self.spread(value, register_type(dtype)), dtype)
        vector = self.many.type(lane)
        stride = self.stride(offset)
        mask = self.mask()
        if stride == 1 and mask is None:
            self.fn.store(vector, raw, address, size)
        elif stride == 1:
            assert mask is not None
            self.fn.masked_store(lane, self.lanes, raw, address, mask)
        else:
            pointers = self.fn.op(
                f"getelementptr {lane}, ptr {self.pointer(buffer)}, <{self.lanes} x i64> {self.numbers(offset)}"
            )
            self.fn.scatter(lane, self.lanes, raw, pointers, mask or self.many.constant("true", "i1"))
