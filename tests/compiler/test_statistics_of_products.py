"""Means and squares of a product's columns join its kernel and keep their digits, against the interpreter and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf._native import _bridge
from habana_tf.compiler import fuse
from habana_tf.compiler.body import Body
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op, Program
from tests.child import on_hpu
from tests.compiler.contraction_cases import BF16, F32
from tests.compiler.running import MATMUL, check, compiled


def kernels(program: Program) -> list[Body]:
    return list(schedule(rewrite(program)).flat())


def normalized(b: Builder, y: Node) -> list[Node]:
    """A tensor less its mean over its root mean square, the sums over all axes but the last; and these."""
    axes = list(range(y.rank - 1))
    count = b.const(float(np.prod([n for n in y.shape[:-1] if isinstance(n, int)])), F32)
    stretched = (1,) * len(axes) + y.shape[-1:]
    total = b.reshape(b.reduce("sum", y, axes), stretched)
    mean = b.reshape(b.binary("div", total, count), y.shape[-1:])
    away = b.binary("sub", y, b.reshape(mean, stretched))
    squares = b.reduce("sum", b.map("mul", away, away), axes)
    variance = b.binary("div", b.reshape(squares, stretched), count)
    root = b.map("rsqrt", b.binary("add", variance, b.const(1e-3, F32)))
    return [b.binary("mul", away, root), mean, squares]


def product(b: Builder, rows: tuple[int, ...], depth: int, columns: int, dtype: DType = F32) -> Node:
    """Rows by columns, and a bias."""
    x, w, bias = b.input((*rows, depth), dtype), b.input((depth, columns), dtype), b.input((columns,), F32)
    n = len(rows)
    spec = Contraction(a=tuple(range(n + 1)), b=(n, n + 1), out=(*range(n), n + 1))
    y = b.cast(b.contract(x, w, spec), F32)
    return b.binary("add", y, b.reshape(bias, (1,) * n + (columns,)))


def arrays(program: Program, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal([int(e) for e in n.shape]).astype(n.dtype.numpy) for n in program.inputs]


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize("rows", [(4096,), (8, 16, 32), (5, 829)], ids=str)
def test_statistics_join_the_product(rows: tuple[int, ...], dtype: DType) -> None:
    b = Builder()
    program = Program(b.inputs, normalized(b, product(b, rows, 40, 72, dtype)))
    first, *others = kernels(program)
    assert first.is_contraction and [r.deviations for r in first.reductions] == [False, True]
    assert not any(k.reductions for k in others)
    check(program, arrays(program), rtol=2e-4 if dtype is F32 else 2e-2, atol=2e-3 if dtype is F32 else 2e-2)


def test_sums_are_of_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rounded numbers where the product is stored in bf16: the mean of what is normalized by them is 0."""
    monkeypatch.setattr(fuse, "SUMMED_ELEMENTS", 1)
    b = Builder()
    program = Program(b.inputs, normalized(b, product(b, (2,), 7, 64, BF16)))
    first, *_ = kernels(program)
    assert first.reductions and [s.target.dtype for s in first.stores] == [BF16]
    (out, *_), _ = compiled(program, arrays(program))
    np.testing.assert_allclose(out.sum(0), np.zeros(64), atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 200), depth=st.sampled_from([1, 7, 64, 300]), columns=st.integers(2, 150),
    dtype=st.sampled_from([F32, BF16]),
)  # fmt: skip
def test_any_size(rows: int, depth: int, columns: int, dtype: DType) -> None:
    before, fuse.SUMMED_ELEMENTS = fuse.SUMMED_ELEMENTS, 1
    try:
        b = Builder()
        y = product(b, (rows,), depth, columns, dtype)
        positive = b.binary("max", y, b.const(0.0, F32))
        sums = [b.reduce("sum", positive, [0]), b.reduce("sum", b.map("stored", b.cast(y, BF16)), [0])]
        program = Program(b.inputs, [*normalized(b, y), positive, *sums])
        found = kernels(program)
        assert sum(len(k.reductions) for k in found if k.is_contraction) >= (0 if rows == 1 else 2)
        near = 1e-2 if dtype is F32 else 5e-2  # a bf16 product that is not stored is not rounded
        check(program, arrays(program), rtol=near, atol=near * max(1, rows) ** 0.5)
    finally:
        fuse.SUMMED_ELEMENTS = before


@pytest.mark.parametrize("there", [True, False], ids=["read by the mask", "read by the sum alone"])
def test_gradients_of_statistics(there: bool) -> None:
    """The sums of a gradient under a mask, and of it times a tensor that the product has to do with anyway, or not."""
    b = Builder()
    rows, columns = (16, 10, 10), 96
    y = product(b, rows, 64, columns)
    x, other, mean = b.input((*rows, columns), F32), b.input((*rows, columns), F32), b.input((columns,), F32)
    passed = b.binary("gt", x if there else other, b.const(0.0, F32))
    dy = b.select(passed, y, b.const(0.0, F32))
    away = b.binary("sub", x, b.reshape(mean, (1, 1, 1, columns)))
    sums = [b.reduce("sum", v, [0, 1, 2]) for v in (dy, b.map("mul", dy, away))]
    program = Program(b.inputs, [dy, *sums])
    first, *others = kernels(program)
    assert [r.node for r in first.reductions] == (sums if there else [])
    assert any(k.reductions for k in others) == (not there)
    check(program, arrays(program), rtol=1e-4, atol=1e-2)


def test_a_sum_that_waits_for_the_statistics_does_not_keep_them_from_the_product() -> None:
    """The second product is made of what the first one's statistics normalize, and is summed up with its result."""
    b = Builder()
    y = product(b, (2048,), 64, 80)
    h, mean, _ = normalized(b, y)
    dy = b.contract(h, b.input((80, 80), F32), MATMUL)
    terms = b.map("mul", dy, b.binary("sub", y, b.reshape(mean, (1, 80))))
    program = Program(b.inputs, [b.reduce("sum", v, [0]) for v in (dy, terms)])
    found = kernels(program)
    assert [len(k.reductions) for k in found if k.is_contraction] == [2, 0]
    check(program, arrays(program), rtol=1e-3, atol=5e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda b, y: b.reduce("sum", y, [1]), lambda b, y: b.reduce("max", y, [0]),
        lambda b, y: b.reduce("sum", y, [0, 1]), lambda b, y: b.reduce("sum", b.permute(y, (1, 0)), [0]),
    ],
    ids=["rows", "extremes", "all", "turned round"],
)  # fmt: skip
def test_other_reductions_have_a_kernel_of_their_own(make: Callable[[Builder, Node], Node]) -> None:
    b = Builder()
    y = product(b, (1024,), 64, 80)
    program = Program(b.inputs, [y, make(b, y)])
    assert not any(k.is_contraction and k.reductions for k in kernels(program))
    check(program, arrays(program), rtol=1e-4, atol=1e-2)


def test_only_squares_about_the_own_mean_are_known_as_such() -> None:
    """About the mean over another axis, with another count, or of something else, they wait for it."""
    b = Builder()
    y = product(b, (300,), 64, 300)

    def squares(mean: Node, count: float) -> Node:
        middle = b.binary("div", mean, b.const(count, F32))
        away = b.binary("sub", y, middle)
        return b.reduce("sum", b.map("mul", away, away), [0])

    total = b.reduce("sum", y, [0])
    others = [
        squares(b.reshape(total, (300, 1)), 300.0), squares(b.reshape(total, (1, 300)), 299.0),
        squares(b.reshape(b.reduce("sum", b.map("abs", y), [0]), (1, 300)), 300.0),
    ]  # fmt: skip
    program = Program(b.inputs, [y, total, *others, squares(b.reshape(total, (1, 300)), 300.0)])
    found = [r for k in kernels(program) for r in k.reductions if r.deviations]
    assert [r.node for r in found] == [program.outputs[-1]]
    check(program, arrays(program), rtol=1e-4, atol=1e-2)


# -- numbers ------------------------------------------------------------------------------------------------------


def statistics(y: Callable[[int, int], Any], rows: int = 6000, columns: int = 48) -> tuple[Any, Any, Any]:
    """Squares of distances from the mean that a product's kernel finds of given results, those that NumPy finds in
    fp32, with the mean known, and the true ones."""
    b = Builder()
    x, w = b.input((rows, 16), F32), b.input((16, columns), F32)
    program = Program(b.inputs, normalized(b, b.contract(x, w, MATMUL)))
    assert kernels(program)[0].reductions
    left, right = np.zeros((rows, 16), np.float32), np.eye(16, columns, dtype=np.float32)
    left[:] = y(rows, 16)
    got = compiled(program, [left, right])[0][2]
    exact = left.astype(np.float64)
    plain = ((left - left.sum(0) / np.float32(rows)) ** 2).sum(0)
    return got[:16], plain, ((exact - exact.mean(0)) ** 2).sum(0)


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e3, -3e4])
def test_squares_far_from_zero_keep_their_digits(mean: float) -> None:
    rng = np.random.default_rng(0)
    got, plain, want = statistics(lambda m, n: mean + rng.standard_normal((m, n)))
    assert np.abs(got - want).max() <= max(np.abs(plain - want).max(), 1e-5 * want.max())


def test_a_first_row_unlike_all_others() -> None:
    rng = np.random.default_rng(1)

    def rows(m: int, n: int) -> Any:
        y = 5 + rng.standard_normal((m, n))
        y[0] = 1e4
        return y

    got, _, want = statistics(rows)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_columns_that_do_not_vary() -> None:
    got, *_ = statistics(lambda m, n: np.full((m, n), 0.1) * np.arange(1, n + 1))
    assert (got == 0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 77, 5999])
def test_what_is_not_finite_stays_in_its_column(row: int, value: float) -> None:
    b = Builder()
    y = b.contract(b.input((6000, 48), F32), b.input((48, 48), F32), MATMUL)
    if np.isnan(value):
        y = b.map("add", y, b.map("mul", y, b.const(0.0, F32, y.shape)))
    program = Program(b.inputs, [b.reduce("sum", y, [0]), *normalized(b, y)[1:]])
    assert any(r.deviations for r in kernels(program)[0].reductions)
    numbers = arrays(program)
    numbers[0][row, 0] = 3e38
    numbers[1][0] = 0
    numbers[1][0, 5] = np.copysign(2, value)  # a product beyond the largest number
    total, mean, squares = compiled(program, numbers)[0]
    np.testing.assert_array_equal(np.isfinite(squares), np.arange(48) != 5)
    assert np.isnan(squares[5])
    for x in (total, mean):
        np.testing.assert_array_equal(np.isfinite(x), np.arange(48) != 5)
        np.testing.assert_array_equal(x[5], np.float32(value))


def test_a_mean_whose_square_is_beyond_the_largest_number() -> None:
    with np.errstate(over="ignore"):
        got, *_ = statistics(lambda m, n: np.full((m, n), 1e25))
    assert (got == 0).all()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    b = Builder()
    image, filters = b.input((4, 30, 30, 32), F32), b.input((3, 3, 32, 64), F32)
    windows = b.window(image, (1, 2), (3, 3), (1, 1), (1, 1))
    spec = Contraction(a=(0, 1, 2, 3, 4, 5), b=(4, 5, 3, 6), out=(0, 1, 2, 6))
    convolution = b.contract(windows, filters, spec)
    program = Program(b.inputs, [*normalized(b, convolution), *normalized(b, product(b, (5000,), 64, 80))])
    assert sum(len(k.reductions) for k in kernels(program) if k.is_contraction) == 4
    values = arrays(program)
    before, found = _bridge.get_threads(), []
    try:
        for count in (1, 2, 3, 5):
            _bridge.set_threads(count)
            found.append([out.tobytes() for out in compiled(program, values)[0]])
    finally:
        _bridge.set_threads(before)
    assert all(x == found[0] for x in found)
    check(program, values, rtol=1e-3, atol=2e-2)


def test_results_that_nobody_else_reads_are_not_stored() -> None:
    b = Builder()
    program = Program(b.inputs, [b.reduce("sum", product(b, (2048,), 64, 80), [0])])
    (kernel,) = kernels(program)
    assert not kernel.stores and len(kernel.reductions) == 1 and kernel.core is not None
    assert kernel.core.op is Op.CONTRACT
    check(program, arrays(program), rtol=1e-4, atol=1e-2)


@on_hpu
def test_a_block_of_a_network_with_its_gradients() -> None:
    """Convolution, batch norm, ReLU, twice, with a shortcut: as stock TensorFlow on the CPU."""
    import tensorflow as tf

    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    @tf.function
    def step(x: Any, *weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, *weights])
            h, statistics = x, []
            for filters, bias, scale, offset in (weights[:4], weights[4:]):
                y = tf.nn.bias_add(tf.nn.conv2d(h, filters, 1, "SAME"), bias)
                y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
                    x=y, scale=scale, offset=offset, mean=[], variance=[], is_training=True
                )
                h, statistics = tf.nn.relu(y + h), [*statistics, mean, variance]
            loss = tf.reduce_sum(tf.sin(h))
        return [h, *statistics, *tape.gradient(loss, [x, *weights])]

    x = numbers(8, 20, 20, 32)
    for size in (1, 3):
        weights = [numbers(size, size, 32, 32) / (4 * size), numbers(32), 1 + numbers(32) / 8, numbers(32)] * 2
        found = []
        for device in ("/HPU:0", "/CPU:0"):
            with tf.device(device):
                found.append([y.numpy() for y in step(tf.constant(x), *map(tf.constant, weights))])
        for got, want in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3 * max(1.0, float(np.abs(want).max())))
