"""The algebra of extents and offsets: canonical forms, and agreement with plain integers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Expr, Var
from habana_tf.ir.linearity import affine, stride_of

ROW, COLUMN = Var("i", 6), Var("j", 4)
N = ext.sym(0)
quick = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def expressions(draw, depth=3):
    """An expression over i, j and the symbol s0, built by the module's functions."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([ext.of(ROW), ext.of(COLUMN), N, 0, 1, 3]))
    kind = draw(st.sampled_from(["add", "mul", "div", "mod", "scale"]))
    a = draw(expressions(depth - 1))
    if kind == "add":
        return ext.add(a, draw(expressions(depth - 1)))
    if kind == "mul":
        return ext.mul(a, draw(expressions(depth - 1)))
    if kind == "scale":
        return ext.mul(a, draw(st.integers(0, 8)))
    by = draw(st.integers(1, 8))
    return ext.div(a, by) if kind == "div" else ext.mod(a, by)


def value(e, i, j, n):
    out = ext.substitute(e, {ROW: i, COLUMN: j, ext.Sym(0): n})
    assert isinstance(out, int)
    return out


def everywhere():
    return itertools.product(range(6), range(4), (1, 2, 5))


@quick
@given(expressions(), expressions(), st.integers(1, 9))
def test_operations_agree_with_integers(a, b, by):
    for point in everywhere():
        x, y = value(a, *point), value(b, *point)
        assert value(ext.add(a, b), *point) == x + y
        assert value(ext.mul(a, b), *point) == x * y
        assert value(ext.div(a, by), *point) == x // by
        assert value(ext.mod(a, by), *point) == x % by


@quick
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9), st.integers(2, 7))
def test_only_numbers_that_are_not_negative_are_divided(a, b, c, by):
    """Generated divisions are unsigned: a reversed axis must not give them a negative number."""
    e = ext.add(ext.add(ext.mul(ext.of(ROW), a), ext.mul(ext.of(COLUMN), b)), c)
    quotient = ext.div(e, by)
    for i, j in itertools.product(range(6), range(4)):
        assert value(quotient, i, j, 0) == (a * i + b * j + c) // by
    for atom, _ in quotient.terms if isinstance(quotient, Expr) else ():
        assert not isinstance(atom, ext.Div) or ext.bounds(atom.value)[0] >= 0


@quick
@given(expressions())
def test_bounds_hold(e):
    low, high = ext.bounds(e)
    for point in everywhere():
        assert low <= value(e, *point) and (high is None or value(e, *point) <= high)


@quick
@given(expressions())
def test_strides_hold(e):
    stride = stride_of(e, ROW)
    if stride is not None:
        for i, j, n in everywhere():
            if i + 1 < 6:
                assert value(e, i + 1, j, n) - value(e, i, j, n) == stride


@quick
@given(expressions(), expressions())
def test_equal_sums_compare_equal(a, b):
    assert ext.add(a, b) == ext.add(b, a)
    assert ext.mul(a, b) == ext.mul(b, a)
    assert ext.add(ext.add(a, b), ext.mul(b, -1)) == a


@quick
@given(expressions(), expressions())
def test_a_quotient_is_one(a, b):
    quotient = ext.divide(a, b)
    if quotient is not None:
        assert ext.mul(quotient, b) == a
    assert b == 0 or len(getattr(b, "terms", "x")) != 1 or ext.divide(b, b) in (1, None)


def test_products_are_divided():
    m = ext.sym(1)
    whole = ext.product([N, 4, m, 3])
    assert ext.divide(whole, ext.mul(N, 6)) == ext.mul(m, 2)
    assert ext.divide(whole, 5) is None and ext.divide(N, m) is None and ext.divide(12, N) is None


def test_an_affine_expression_is_nothing_but_its_variables():
    e = ext.add(ext.mul(ext.of(ROW), 3), 5)
    assert affine(e, [ROW, COLUMN]) == ((3, 0), 5)
    assert affine(ext.add(e, N), [ROW, COLUMN]) is None
    assert affine(ext.mul(ext.of(ROW), N), [ROW, COLUMN]) is None


def test_nominal_sizes_are_positive_numbers():
    assert ext.nominal(7) == 7 and ext.nominal(ext.mul(N, 3)) == 3 * ext.NOMINAL
    assert ext.nominal(ext.add(ext.div(N, 8), -100)) == 1


def test_constants_are_plain_integers():
    i = ext.of(ROW)
    assert ext.add(i, ext.mul(i, -1)) == 0 and isinstance(ext.add(i, ext.mul(i, -1)), int)
    assert ext.var("k", 1) == 0


def test_quotient_and_remainder_join():
    flat = ext.add(ext.mul(ext.of(ROW), 4), ext.of(COLUMN))
    assert ext.div(flat, 4) == ext.of(ROW) and ext.mod(flat, 4) == ext.of(COLUMN)
    odd = ext.add(ext.mul(ext.of(ROW), 2), ext.of(COLUMN))
    assert ext.add(ext.mul(ext.div(odd, 5), 5), ext.mod(odd, 5)) == odd
    assert ext.div(ext.div(odd, 3), 5) == ext.div(odd, 15)


def test_ravel_and_unravel_are_inverse():
    shape = (3, 4, 5)
    index = (ext.var("a", 3), ext.var("b", 4), ext.var("c", 5))
    assert ext.unravel(ext.ravel(index, shape), shape) == index
    assert ext.unravel(7, ()) == ()


def test_operators_and_text():
    e = 2 * N + 3 - ext.of(ROW)
    assert isinstance(e, Expr)
    assert str(e) == "-1*i+2*s0+3"
    assert str((N * N) // 2) == "((s0*s0)//2)" and str(N % 3) == "((s0)%3)"
    assert ext.evaluate(ext.product((N, 2, N)), [5]) == 50


def test_evaluate_refuses_a_loop_variable():
    with pytest.raises(AssertionError, match="loop variable"):
        ext.evaluate(ext.of(ROW), [3])


@st.composite
def sizes(draw, depth=4):
    """An expression of two sizes, with differences, quotients and remainders of them."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([N, ext.sym(1), 0, 1, 3]))
    kind = draw(st.sampled_from(["add", "sub", "div", "mod", "scale"]))
    a = draw(sizes(depth - 1))
    if kind in ("add", "sub"):
        return ext.add(a, ext.mul(draw(sizes(depth - 1)), 1 if kind == "add" else -1))
    if kind == "scale":
        return ext.mul(a, draw(st.integers(-4, 8)))
    by = draw(st.integers(1, 6))
    return ext.div(a, by) if kind == "div" else ext.mod(a, by)


def as_written(e, dims):
    """The value of an expression term by term, without the algebra."""
    if isinstance(e, int):
        return e

    def of(atom):
        match atom:
            case ext.Sym(index=index):
                return dims[index]
            case ext.Div(value=v, by=by):
                return as_written(v, dims) // by
            case ext.Mod(value=v, by=by):
                return as_written(v, dims) % by

    return e.const + sum(c * of(atom) for atom, c in e.terms)


@quick
@given(sizes(), sizes(), st.integers(1, 7))
def test_quotients_of_sizes_agree_with_integers(a, b, by):
    for dims in ([1, 1], [2, 5], [7, 3], [12, 8], [13, 9]):
        x, y = as_written(a, dims), as_written(b, dims)
        assert as_written(ext.add(a, b), dims) == x + y
        assert as_written(ext.div(a, by), dims) == x // by
        assert as_written(ext.mod(a, by), dims) == x % by
        low, high = ext.bounds(a)
        assert low <= x and (high is None or x <= high)


@pytest.mark.parametrize("by", range(2, 7))
def test_what_padding_adds_to_a_size_is_a_multiple(by):
    """Shapes are compared by their form: n and what is missing to a multiple is by * ceil(n / by)."""
    ceiling = ext.div(ext.add(N, by - 1), by)
    missing = ext.mod(ext.mul(N, -1), by)
    assert ext.add(N, missing) == ext.mul(ceiling, by)
    assert ext.add(ext.mul(ceiling, by), ext.mul(missing, -1)) == N
    assert ext.add(ext.mul(ceiling, by), ext.mul(N, -1)) == missing
    assert ext.add(N, ext.mul(ext.mod(N, by), -1)) == ext.mul(ext.div(N, by), by)
    assert ext.div(ext.mul(N, -1), by) == ext.mul(ceiling, -1)
    assert ext.div(ext.add(ceiling, 1), 2) == ext.div(ext.add(N, 2 * by - 1), 2 * by)
    assert ext.divide(ext.add(ext.mul(ceiling, by), 2 * by), by) == ext.add(ceiling, 2)


def test_sums_divide_by_sums():
    square = ext.add(ext.mul(N, N), N)
    assert ext.divide(ext.mul(square, 4), ext.add(N, 1)) == ext.mul(N, 4)
    assert ext.divide(ext.mul(square, 4), square) == 4
    assert ext.divide(ext.add(square, 1), ext.add(N, 1)) is None
