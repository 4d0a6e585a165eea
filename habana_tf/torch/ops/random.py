"""Random numbers: stretches of a Philox stream, whose seed and offset are read at run time.

A number in [0, 1) has the upper 24 bits of a word, as PyTorch's of other cards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from habana_tf.formulas import philox
from habana_tf.formulas.term import Term
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, formula, overload

_STREAM = ("seed", "offset")


def _state(c: Call, seed: Operand, offset: Operand) -> Node:
    b = c.b

    def word(x: Operand) -> Node:
        return b.reshape(b.map("bitcast", c.node(x, DType.I64), dtype=DType.U64), (1,))

    counter = philox.vector(b, [word(offset), b.const(0, DType.U64, (1,))])
    return philox.state_of(b, counter, word(seed))


def _count(c: Call) -> Extent:
    return ext.product(c.shape)


def _unit(c: Call, seed: Operand, offset: Operand, bits: int = 24) -> Term:
    """Numbers in [0, 1) in the shape of the result."""
    b = c.b
    words = b.random(_state(c, seed, offset), _count(c))
    upper = b.binary("shr", words, b.const(32 - bits, DType.U32))
    return Term(b, b.reshape(b.cast(b.cast(upper, DType.I32), DType.F32), c.shape)) * 2.0**-bits


def _above_zero(c: Call, seed: Operand, offset: Operand) -> Term:
    """Numbers in (0, 1]."""
    return _unit(c, seed, offset) + 2.0**-24


def _exponential(c: Call, seed: Operand, offset: Operand) -> Term:
    """Never 0, so that one may divide by it."""
    return (-_above_zero(c, seed, offset).map("log")).max(2.0**-25)


def _normal(c: Call, seed: Operand, offset: Operand) -> Term:
    n = _count(c)
    return Term(c.b, c.b.reshape(philox.normal(c.b, _state(c, seed, offset), n, DType.F32), c.shape))


@dataclass(frozen=True)
class Distribution:
    """What `habana_tf::<name>_` fills a tensor with. source: random numbers of the tensor's shape; formula: of these
    and the distribution's own numbers. defaults: the latter, by name, with PyTorch's values, None for none."""

    source: Callable[[Call, Operand, Operand], Term]
    formula: Callable[..., Term]
    defaults: Mapping[str, float | None]
    floats: bool = True

    @property
    def words(self) -> int:
        """32-bit words that an element takes from the stream."""
        return 2 if self.source is _normal else 1

    def lower(self, c: Call, x: Node | None, *numbers: Operand) -> Node:
        """Draws. numbers: the distribution's own ones, then seed and offset."""
        *own, seed, offset = numbers
        return self.formula(self.source(c, seed, offset), *(c.term(n, DType.F32) for n in own)).node


DISTRIBUTIONS = {
    "uniform": Distribution(
        lambda c, seed, offset: _unit(c, seed, offset, 8 if c.dtype is DType.BF16 else 24),
        lambda unit, low, high: unit * (high - low) + low, {"low": 0, "high": 1},
    ),
    "normal": Distribution(_normal, lambda z, mean, std: z * std + mean, {"mean": 0, "std": 1}),
    "log_normal": Distribution(_normal, lambda z, mean, std: (z * std + mean).map("exp"), {"mean": 1, "std": 2}),
    "bernoulli": Distribution(_unit, lambda unit, p: unit.test("lt", p), {"p": 0.5}, floats=False),
    "exponential": Distribution(_exponential, lambda waited, rate: waited / rate, {"rate": 1}),
    "geometric": Distribution(
        _above_zero, lambda unit, p: (unit.map("log") / (-p).map("log1p")).map("ceil").max(1), {"p": None},
        floats=False,
    ),
    "cauchy": Distribution(
        _unit, lambda unit, median, sigma: ((unit + 2.0**-25 - 0.5) * math.pi).map("tan") * sigma + median,
        {"median": 0, "sigma": 1},
    ),
}  # fmt: skip
"""By name."""
for _name, _drawn in DISTRIBUTIONS.items():
    overload(f"habana_tf::{_name}_", runtime=[*_drawn.defaults, *_STREAM], drops=True, floats=_drawn.floats)(
        _drawn.lower
    )


@overload("habana_tf::bernoulli_by_", runtime=_STREAM, drops=True)
def bernoulli_by(c: Call, x: Node | None, p: Node, seed: Operand, offset: Operand) -> Node:
    share = c.term(p, DType.F32)
    inside = c.b.binary("and", share.test("ge", 0.0).node, share.test("le", 1.0).node)
    c.holds("RuntimeError: Expected p_in >= 0 && p_in <= 1 to be true, but got false.", inside)
    return _unit(c, seed, offset).test("lt", share).node


@overload("habana_tf::dropout", runtime=["p", *_STREAM], floats=True)
def dropout(c: Call, x: Node, p: Operand, seed: Operand, offset: Operand) -> list[Node]:
    """x / (1 - p) where it is kept, and where that is."""
    lost = c.term(p, DType.F32)
    kept = _unit(c, seed, offset).test("ge", lost)
    return [kept.where(c.term(x) / (1.0 - lost), 0.0).node, kept.node]


formula("native_dropout_backward")(lambda dy, mask, scale: dy * mask * scale)


@overload("habana_tf::random_", runtime=["low", "count", *_STREAM], drops=True)
def random(c: Call, x: Node | None, low: Operand, count: Operand, seed: Operand, offset: Operand) -> Node:
    """Whole numbers from `low` on; `count` of them, 2**64 where that is 0, as an unsigned number."""
    b = c.b
    words = b.reshape(philox.integers(b, _state(c, seed, offset), _count(c), DType.U64), c.shape)
    many = b.map("bitcast", c.node(count, DType.I64), dtype=DType.U64)
    one, zero = b.const(1, DType.U64), b.const(0, DType.U64)
    all_ = b.binary("eq", many, zero)
    rest = b.binary("truncmod", words, b.select(all_, one, many))
    drawn = b.map("bitcast", b.select(all_, words, rest), dtype=DType.I64)
    return b.binary("add", drawn, c.node(low, DType.I64))


@overload("habana_tf::permutation", runtime=_STREAM)
def permutation(c: Call, n: int, seed: Operand, offset: Operand) -> Node:
    """The order of n random numbers."""
    keys = philox.integers(c.b, _state(c, seed, offset), n, DType.I64)
    return c.b.sort(keys, 0)


def _look_at_weights(c: Call, p: Node, refusal: str) -> None:
    """Weights to draw by are numbers, and not all of them 0. refusal: PyTorch's words for other ones."""
    weight = Term(c.b, c.b.cast(p, DType.F32))
    right = c.b.binary("and", weight.test("ge", 0.0).node, weight.test("lt", math.inf).node)
    c.holds(f"RuntimeError: {refusal}", right)
    some = Term(c.b, c.b.reduce("max", weight.node, [p.rank - 1])).test("ne", 0.0)
    c.holds("RuntimeError: invalid multinomial distribution (sum of probabilities <= 0)", some.node)


@overload("habana_tf::race", runtime=_STREAM, floats=True)
def race(c: Call, p: Node, seed: Operand, offset: Operand) -> Node:
    """Weights divided by exponential numbers: the largest is the class that is drawn, the next one the next."""
    _look_at_weights(c, p, "probability tensor contains either `inf`, `nan` or element < 0")
    return (c.term(p) / _exponential(c, seed, offset)).node


@overload("habana_tf::choices", runtime=_STREAM, floats=True)
def choices(c: Call, p: Node, count: int, seed: Operand, offset: Operand) -> Node:
    """Classes of the last axis: the first whose running sum of weights passes a random part of the whole."""
    b = c.b
    axis = p.rank - 1
    _look_at_weights(c, p, "invalid multinomial distribution (encountering probability entry < 0, infinity or NaN)")
    running = b.scan("sum", b.cast(p, DType.F32), axis)
    total = b.along(running, axis, c.number(p.shape[axis]) - 1, 1)
    drawn = (_unit(c, seed, offset) * Term(b, total)).node
    places = (*c.shape, p.shape[axis])
    passed = b.binary(
        "le", b.expand(b.reshape(running, (*p.shape[:axis], 1, p.shape[axis])), places), b.reshape(drawn, (*c.shape, 1))
    )
    found = b.reduce("sum", b.cast(passed, DType.I64), [len(c.shape)])
    return b.binary("min", found, b.const(c.number(p.shape[axis]) - 1, DType.I64))
