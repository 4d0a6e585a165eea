"""Emits index expressions, as an i64 or as a vector of i64 along the vector variable."""

from __future__ import annotations

from habana_tf.compiler.codegen.emit import Function, Value, lane_numbers
from habana_tf.compiler.codegen.scalar import Scalar
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Atom, Expr, Extent, Var
from habana_tf.ir.linearity import stride_of


def extent_value(fn: Function, e: Extent) -> Value:
    """Emits an extent as i64 at the current position of a function."""
    return IndexEvaluator(fn, 1, None).number(e)


class IndexEvaluator:
    """Emits index expressions within a function. vector: the vectorized variable."""

    def __init__(self, fn: Function, lanes: int, vector: Var | None) -> None:
        self.fn = fn
        self.lanes = lanes if vector is not None else 1
        self.vector = vector
        self.one = Scalar(fn, 1)
        self.many = Scalar(fn, self.lanes)
        self.vars: dict[Var, Value] = {}
        self._numbers: list[dict[Extent, Value]] = [{}]
        self._moved: dict[Atom, Extent] = {}

    def number(self, e: Extent) -> Value:
        """An index expression as i64, of the first lane."""
        e = self._here(e)
        if isinstance(e, int):
            return str(e)
        for known in self._numbers:
            if e in known:
                return known[e]
        total: Value = "0"
        for atom, c in e.terms:
            total = self.fn.add(total, self.fn.mul(self._atom(atom), c))
        total = self.fn.add(total, e.const)
        self._numbers[-1][e] = total
        return total

    def _here(self, e: Extent) -> Extent:
        """An index expression at the current point (see `Evaluator.moved`)."""
        return ext.substitute(e, self._moved) if self._moved else e

    def extent(self, e: Extent) -> Value:
        """A symbolic extent, which depends on no loop variable, as i64."""
        return IndexEvaluator.number(self, e)

    def _atom(self, atom: Atom) -> Value:
        match atom:
            case Var():
                return self.vars[atom]
            case ext.Sym(index=index):
                return self.fn.dim(index)
            case ext.Prod(factors=factors):
                out: Value = "1"
                for f in factors:
                    out = self.fn.mul(out, self._atom(f))
                return out
            case ext.Div(value=value, by=by):
                if ext.is_size(value) and ext.bounds(value)[0] < 0:
                    return self._floor(self.number(value), by)
                return self.fn.div(self.number(value), by)
            case ext.Mod(value=value, by=by):
                n = self.number(value)
                if ext.is_size(value) and ext.bounds(value)[0] < 0:
                    return self.fn.sub(n, self.fn.mul(self._floor(n, by), by))
                return self.fn.rem(n, by)

    def _floor(self, n: Value, by: int) -> Value:
        """Floor division of possibly negative differences of sizes: n // by == ~(~n // by) for n < 0."""
        below = self.fn.op(f"ashr i64 {n}, 63")
        turned = self.fn.op(f"xor i64 {n}, {below}")
        return self.fn.op(f"xor i64 {self.fn.op(f'udiv i64 {turned}, {by}')}, {below}")

    def stride(self, e: Extent) -> int | None:
        """The stride of an index expression along lanes; None if it is not constant."""
        return 0 if self.vector is None else stride_of(e, self.vector)

    def depends(self, e: Extent) -> bool:
        """Whether an index expression differs between lanes."""
        return self.stride(e) != 0

    def numbers(self, e: Extent) -> Value:
        """An index expression as an i64 per lane."""
        e = self._here(e)
        if not self.depends(e):
            return self.fn.splat(self.lanes, "i64", self.number(e))
        assert isinstance(e, Expr)
        stride = self.stride(e)
        if stride is not None:
            start = self.fn.splat(self.lanes, "i64", self.number(e))
            steps = lane_numbers("i64", self.lanes, stride) if self.lanes > 1 else "0"
            return self.many.op("add", start, steps, "i64")
        total = self.many.constant(str(e.const), "i64")
        for atom, c in e.terms:
            term = self._atoms(atom)
            term = term if c == 1 else self.many.op("mul", term, self.many.constant(str(c), "i64"), "i64")
            total = self.many.op("add", total, term, "i64")
        return total

    def words(self, e: Extent) -> Value:
        """An index expression as an i32 per lane, which takes half as many vectors."""
        stride = self.stride(e) if self.depends(e) else 0
        if stride is None:
            return self.many.convert("trunc", self.numbers(e), "i64", "i32")
        start = self.fn.splat(self.lanes, "i32", self.one.convert("trunc", self.number(e), "i64", "i32"))
        if not stride or self.lanes == 1:
            return start
        return self.many.op("add", start, lane_numbers("i32", self.lanes, stride), "i32")

    def _atoms(self, atom: Atom) -> Value:
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
