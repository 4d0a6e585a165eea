"""Reductions to few results are cut in parts after fusion, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.compiler.body import Body
from habana_tf.compiler.describe import describe
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from tests.compiler.running import check, check_range, compiled


def _bodies(program: Program) -> list[Body]:
    return list(schedule(rewrite(program)).flat())


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=str)
def test_a_reduction_to_few_results_has_parts_in_the_type_of_sums(dtype: DType) -> None:
    b = Builder()
    x = b.input((64, 40, 40, 8), dtype)
    program = Program(b.inputs, [b.reduce("sum", x, [0, 1, 2]), b.reduce("max", x, [0, 1, 2])])
    parts, whole = _bodies(program)
    assert [r.node.shape for r in parts.reductions] == [(64, 8)] * 2
    assert {r.node.dtype for r in parts.reductions} == {DType.F32}
    assert [r.node for r in whole.reductions] == program.outputs
    values = np.random.default_rng(0).normal(size=(64, 40, 40, 8)).astype(dtype.numpy)
    sums, most = (y.astype(np.float32) for y in compiled(program, [values])[0])
    np.testing.assert_allclose(
        sums, values.astype(np.float64).sum((0, 1, 2)), rtol=1e-2 if dtype is DType.BF16 else 1e-4, atol=1e-2
    )
    np.testing.assert_array_equal(most, values.astype(np.float32).max((0, 1, 2)))


def test_parts_of_integers_and_truths() -> None:
    rng = np.random.default_rng(1)
    for dtype, kind in ((DType.I32, "sum"), (DType.I64, "min"), (DType.BOOL, "max"), (DType.U8, "max")):
        b = Builder()
        x = b.input((40, 30, 100), dtype)
        check(Program(b.inputs, [b.reduce(kind, x, [0, 1])]), [rng.integers(0, 2, (40, 30, 100)).astype(dtype.numpy)])


def test_a_small_reduction_is_left_alone() -> None:
    b = Builder()
    program = Program(b.inputs, [b.reduce("sum", b.input((64, 8), DType.F32), [0])])
    assert len(_bodies(program)) == 1


def test_sums_for_each_tap_of_a_filter_have_parts() -> None:
    """As the gradient of a depthwise filter: all taps of a channel are summed in one work item."""
    b = Builder()
    x, y = b.input((16, 20, 20, 1, 1, 48, 1), DType.F32), b.input((16, 20, 20, 3, 3, 48, 1), DType.F32)
    product = b.binary("mul", b.expand(x, y.shape), y)
    program = Program(b.inputs, [b.reduce("sum", product, [0, 1, 2])])
    parts, _ = _bodies(program)
    assert parts.reductions[0].node.shape == (16, 4, 3, 3, 48, 1)
    rng = np.random.default_rng(0)
    check(program, [rng.integers(-4, 5, n.shape).astype(np.float32) for n in program.inputs])


@pytest.mark.parametrize("shape", [(16, 20, 20, 512), (16, 10, 10, 1024), (6, 40, 64, 96), (8, 9, 30, 4, 40)], ids=str)
def test_more_axes_are_cut_where_one_has_too_few_parts(shape: tuple[int, ...]) -> None:
    b = Builder()
    axes = list(range(len(shape) - 1))
    x = b.input(shape, DType.F32)
    program = Program(b.inputs, [b.reduce(kind, x, axes) for kind in ("sum", "max")])
    parts, whole = _bodies(program)
    items = np.prod(parts.reductions[0].node.shape[:-1])
    rows = np.prod(shape[:-1])
    assert items <= 64 and (items == shape[0] or rows / items >= 64)
    assert len(whole.axes) == len(parts.reductions[0].node.shape) - 1
    check(program, [np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)])


def test_a_reduction_of_many_rows_is_left_alone() -> None:
    b = Builder()
    program = Program(b.inputs, [b.reduce("sum", b.input((512, 1024), DType.F32), [1])])
    assert len(_bodies(program)) == 1


def test_the_first_extreme_of_all_is_left_alone() -> None:
    b = Builder()
    x = np.random.default_rng(2).integers(0, 50, (300, 400)).astype(np.float32)
    program = Program(b.inputs, [b.reduce("argmax", b.input((300, 400), DType.F32), [0])])
    assert len(_bodies(program)) == 1
    check(program, [x])


@pytest.mark.parametrize("shape", [(16, 10, 10, 272), (4, 30, 30, 48), (128, 600), (64, 65, 33), (7, 90000)], ids=str)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=str)
def test_what_stores_a_tensor_sums_it_up(shape: tuple[int, ...], dtype: DType) -> None:
    """As a bias' gradient: one kernel reads and writes the tensor, the other one adds the parts."""
    b = Builder()
    x, scale = b.input(shape, DType.F32), b.input(shape[-1:], DType.F32)
    wide = b.expand(b.reshape(scale, (1,) * (len(shape) - 1) + shape[-1:]), shape)
    y = b.cast(b.binary("mul", x, wide), dtype)
    axes = list(range(len(shape) - 1))
    outputs = [y, b.reduce("sum", y, axes), b.reduce("max", b.map("abs", y), axes)]
    program = Program(b.inputs, outputs)
    bodies = _bodies(program)
    assert len(bodies) <= 2 and [s.target for s in bodies[0].stores] == [y]
    rng = np.random.default_rng(3)
    values = [rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[-1:]).astype(np.float32)]
    (stored, sums, most), _ = compiled(program, values)
    want = (values[0] * values[1]).astype(dtype.numpy)
    np.testing.assert_array_equal(stored.astype(np.float32), want.astype(np.float32))
    exact = want.astype(np.float64).sum(tuple(axes))
    room = 1e-6 + 4e-6 * np.abs(want.astype(np.float64)).sum(tuple(axes))
    if dtype is DType.BF16:
        room += 4e-3 * np.abs(exact)
    assert (np.abs(sums.astype(np.float64) - exact) <= room).all()
    np.testing.assert_array_equal(most.astype(np.float32), np.abs(want.astype(np.float32)).max(tuple(axes)))


def test_what_is_no_number_stays_none() -> None:
    b = Builder()
    x = b.input((16, 20, 300), DType.F32)
    values = np.ones((16, 20, 300), np.float32)
    values[3, 4, 5], values[5, 6, 7], values[6, 6, 299] = np.nan, np.inf, -np.inf
    program = Program(b.inputs, [b.reduce("sum", x, [0, 1]), b.reduce("max", x, [0, 1]), b.map("neg", x)])
    got, _ = compiled(program, [values])
    np.testing.assert_array_equal(got[0], values.sum((0, 1)))
    np.testing.assert_array_equal(got[1], values.max((0, 1)))


@pytest.mark.parametrize("shape", [(0, 40, 300), (5, 0, 300), (5, 40, 0)], ids=str)
def test_sums_of_wide_rows_of_which_there_are_none(shape: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input(shape, DType.F32)
    check(Program(b.inputs, [b.reduce("sum", x, [1]), b.map("neg", x)]), [np.ones(shape, np.float32)])


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    b = Builder()
    x = b.input((30, 41, 700), DType.F32)
    program = Program(b.inputs, [b.reduce("sum", x, [0, 1]), b.map("neg", x), b.reduce("sum", x, [1])])
    values = np.random.default_rng(4).normal(size=(30, 41, 700)).astype(np.float32)
    before, found = _bridge.get_threads(), []
    try:
        for count in (1, 2, 5):
            _bridge.set_threads(count)
            found.append([out.tobytes() for out in compiled(program, [values])[0]])
    finally:
        _bridge.set_threads(before)
    assert found[0] == found[1] == found[2]


def test_parts_lie_along_a_size_that_is_a_number() -> None:
    b = Builder()
    n = ext.sym(0)
    x = b.input((n, 40, 12, 72), DType.F32)
    check_range(Program(b.inputs, [b.reduce("sum", x, [0, 1, 2]), b.map("neg", x)]), [[1], [5], [64]], atol=1e-3)


def test_what_is_counted_is_what_is_done() -> None:
    b = Builder()
    program = Program(b.inputs, [b.reduce("sum", b.input((64, 40, 40, 8), DType.F32), [0, 1, 2])])
    parts, whole = map(describe, _bodies(program))
    assert (parts["flops"], parts["bytes"]) == (64 * 40 * 40 * 8, 4 * (64 * 40 * 40 * 8 + 64 * 8))
    assert (whole["flops"], whole["bytes"]) == (64 * 8, 4 * (64 * 8 + 8))
