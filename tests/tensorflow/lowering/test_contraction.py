"""Matrix products against stock TensorFlow on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, evaluate, quick, reference, refusal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rounding import check_both, check_products

R = tf.raw_ops


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(F32)


sizes = st.integers(0, 5)


@quick
@given(sizes, sizes, sizes, st.booleans(), st.booleans())
def test_matmul(m: int, k: int, n: int, ta: bool, tb: bool) -> None:
    a, b = normal(*((k, m) if ta else (m, k))), normal(*((n, k) if tb else (k, n)), seed=1)
    check_products(lambda x, y: R.MatMul(a=x, b=y, transpose_a=ta, transpose_b=tb), a, b)


@quick
@given(
    st.sampled_from([((2,), (2,)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((), (2,)), ((0,), (1,)), ((1,), (1,))]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_batch_matmul_broadcasts(batch: Any, ax: bool, ay: bool) -> None:
    first, second = batch
    a, b = normal(*first, *((3, 2) if ax else (2, 3))), normal(*second, *((4, 3) if ay else (3, 4)), seed=1)
    check_products(lambda x, y: R.BatchMatMulV2(x=x, y=y, adj_x=ax, adj_y=ay), a, b)
    check_products(lambda x, y: R.BatchMatMulV3(x=x, y=y, adj_x=ax, adj_y=ay, Tout=x.dtype), a, b)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ab,bc->ac", [(2, 3), (3, 4)]),
        ("abc,cde->abde", [(2, 3, 4), (4, 2, 3)]),
        ("aecd,abcd->acbe", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("...ab,...bc->...ac", [(2, 1, 2, 3), (3, 3, 4)]),
        ("abx,bc->ac", [(2, 3, 2), (3, 4)]),
        ("a,b->ab", [(2,), (3,)]),
        ("abc->ca", [(2, 3, 4)]),
        ("...a->a...", [(2, 3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: Any) -> None:
    operands = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    check_products(lambda *x: R.Einsum(inputs=list(x), equation=equation), *operands)


@st.composite
def diagonals(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    """An equation of one or two operands with repeated labels, and shapes for it."""
    sizes = {label: draw(st.integers(0, 3)) for label in "abc"}
    terms = [draw(st.text("abc", max_size=4)) for _ in range(draw(st.integers(1, 2)))]
    known = sorted({*"".join(terms)})
    result = draw(st.text(known, max_size=4)) if known else ""
    dots = draw(st.booleans())
    if dots:
        terms = [f"...{t}" for t in terms]
        result += "..."
    shapes = [((2,) if dots else ()) + tuple(sizes[x] for x in t.replace("...", "")) for t in terms]
    return f"{','.join(terms)}->{result}", shapes


@settings(quick, max_examples=40)
@given(diagonals())
@example(("ii->i", [(3, 3)]))
@example(("ii->", [(3, 3)]))
@example(("bii->bi", [(2, 3, 3)]))
@example(("i->iii", [(3,)]))
@example(("aab,bcc->ac", [(2, 2, 3), (3, 4, 4)]))
@example(("...ii->...i", [(2, 2, 3, 3)]))
def test_einsum_of_diagonals(case: tuple[str, list[tuple[int, ...]]]) -> None:
    equation, shapes = case
    operands = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    check_products(lambda *x: R.Einsum(inputs=list(x), equation=equation), *operands)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,jk->ik", [(2, 1), (3, 4)]), ("ii->i", [(3, 1)]), ("...i->i", [(2, 3)]), ("ijk->i", [(2, 3)])],
)
def test_einsum_refuses_what_tensorflow_refuses(equation: str, shapes: Any) -> None:
    operands = [normal(*s) for s in shapes]
    with pytest.raises(tf.errors.InvalidArgumentError):
        reference(lambda *x: R.Einsum(inputs=list(x), equation=equation), *operands)
    assert "Einsum" in refusal(lambda *x: R.Einsum(inputs=list(x), equation=equation), *operands)


@pytest.mark.parametrize(
    ("op", "first", "second"),
    [("MatMul", (2, 1), (3, 4)), ("MatMul", (2, 3), (1, 4)), ("BatchMatMulV2", (5, 2, 1), (5, 3, 4)),
     ("BatchMatMul", (5, 2, 3), (1, 3, 4)), ("BatchMatMul", (1, 2, 3), (3, 4))],
)  # fmt: skip
def test_products_of_sizes_that_differ_are_refused(op: str, first: Any, second: Any) -> None:
    """One column does not stretch to several."""
    names = ("a", "b") if op == "MatMul" else ("x", "y")
    fn = lambda *x: getattr(R, op)(**dict(zip(names, x, strict=True)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        reference(fn, normal(*first), normal(*second))
    assert f"on shapes {list(first)}, {list(second)}: " in refusal(fn, normal(*first), normal(*second))


@pytest.mark.parametrize("a", [F32, BF16])
@pytest.mark.parametrize("b", [F32, BF16])
@pytest.mark.parametrize("to", [F32, BF16])
def test_products_of_two_types(a: Any, b: Any, to: Any) -> None:
    """Not against a kernel of TensorFlow's, which has none of mixed types: against float32, rounded at the end."""
    x, y = normal(2, 3, 5).astype(a), normal(2, 5, 4, seed=1).astype(b)
    want = np.matmul(x.astype(F32), y.astype(F32)).astype(to)
    for (got,) in evaluate(lambda x, y: R.BatchMatMulV3(x=x, y=y, Tout=tf.as_dtype(to)), x, y):
        assert got.dtype == to
        np.testing.assert_allclose(got.astype(F32), want.astype(F32), rtol=1e-5 if to == F32 else 2**-7, atol=1e-6)


def test_infinity_and_nan_go_through_products() -> None:
    a = np.array([[np.inf, 1], [np.nan, 2], [1, 2]], F32)
    check_both(lambda x, y: R.MatMul(a=x, b=y), a, normal(2, 2))
