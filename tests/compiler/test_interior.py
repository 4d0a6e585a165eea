"""Loops over images without guards in their middle give what the interpreter gives, at every edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.compiler.body import Body, Reduction, variables
from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.codegen.interior import interior
from habana_tf.compiler.point_values import Load
from habana_tf.compiler.view_indices import Range
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Program
from tests.compiler.running import check, compiled

F = DType.F32


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Sums, maxima and per-tap sums over the windows of padded images, of many rows and of few."""
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    stride = draw(st.sampled_from([1, 1, 2]))
    low, high = (draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(2))
    size = [draw(st.integers(max(1, k - a - b), 12)) for k, a, b in zip(kernel, low, high, strict=True)]
    images = draw(st.sampled_from([1, 16, 70]))
    channels = draw(st.sampled_from([1, 5, target().lanes, 3 * target().lanes + 2]))
    b = Builder()
    x = b.input((images, *size, channels), F)
    windows = b.window(b.pad(x, [0, *low, 0], [0, *high, 0]), (1, 2), kernel, (stride, stride), (1, 1))
    w = b.input((channels, *kernel), F)
    dy = b.input(windows.shape[:4], F)
    columns = b.permute(windows, (0, 1, 2, 4, 5, 3))
    factors = b.reshape(dy, (*dy.shape[:3], 1, 1, channels))
    outputs = [
        b.reduce("sum", b.binary("mul", windows, w), (4, 5)),
        b.reduce("max", windows, (4, 5)),
        b.reduce("sum", b.binary("mul", columns, factors), (0, 1, 2)),
    ]
    return Program(b.inputs, [outputs[draw(st.integers(0, 2))]])


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 99))
def test_windows_of_padded_images(program: Program, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    arrays = [numbers.normal(size=n.shape).astype(np.float32) for n in program.inputs]
    check(program, arrays, atol=1e-3)  # sums of some thousand numbers


def _forward(images: int, side: int, channels: int) -> tuple[Program, list[Node]]:
    b = Builder()
    x, w = b.input((images, side, side, channels), F), b.input((channels, 3, 3), F)
    windows = b.window(b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0]), (1, 2), (3, 3), (1, 1), (1, 1))
    return Program(b.inputs, [b.reduce("sum", b.binary("mul", windows, w), (4, 5))]), b.inputs


@pytest.mark.parametrize("place", [(0, 0), (0, 19), (19, 0), (7, 0), (0, 7), (19, 7)])
def test_padding_beside_a_row_is_zero_and_not_the_neighbouring_row(place: tuple[int, int]) -> None:
    """What is not finite stays where its windows are: a row without guards reads no other row's end."""
    program, inputs = _forward(8, 20, 5)
    arrays = [np.ones(n.shape, np.float32) for n in inputs]
    arrays[0][3, place[0], place[1]] = np.inf
    (got,), _ = compiled(program, arrays)
    y, x = np.indices((20, 20))
    near = (abs(y - place[0]) <= 1) & (abs(x - place[1]) <= 1)
    np.testing.assert_array_equal(np.isinf(got[3]).all(-1), near)
    assert np.isfinite(got[[0, 1, 2, 4, 5, 6, 7]]).all()


@pytest.mark.parametrize(("images", "whole"), [(8, True), (3, False)])
def test_a_row_of_an_image_is_one_work_item_where_there_are_many(images: int, whole: bool) -> None:
    program, inputs = _forward(images, 20, 64)
    _, recipe = compiled(program, [np.ones(n.shape, np.float32) for n in inputs])
    (call,) = recipe.calls
    assert (call.grid == 20 * images) == whole
    assert call.grid >= 20 * images


def _one_range(value: Extent, stop: int, step: int = 1) -> Body:
    node = Builder().input((1,), F)
    load = Load(F, node, 0, (Range(value, stop, step),))
    return Body((20, 40, 3, 8), reductions=(Reduction(load, node),), axes=(2,))


Y, X, TAP, C = variables((20, 40, 3, 8))
AXES = [LoopAxis(v, n, (k,), k == 2) for k, (v, n) in enumerate(zip((Y, X, TAP, C), (20, 40, 3, 8), strict=True))]
y, x, tap, c = map(ext.of, (Y, X, TAP, C))


@pytest.mark.parametrize(("value", "stop", "first", "last"), [
    (x + tap - 1, 40, 1, 39),
    (2 * x + tap - 1, 79, 1, 39),
    (2 * x + tap - 3, 90, 2, 40),
    (x - tap, 40, 2, 40),
    (x - 3, 20, 3, 23),
])  # fmt: skip
def test_the_middle(value: Extent, stop: int, first: int, last: int) -> None:
    """By trying every point."""
    body = _one_range(value, stop)
    inside = [all(0 <= int(ext.substitute(value, {X: k, TAP: t})) < stop for t in range(3)) for k in range(40)]
    assert [k for k in range(40) if inside[k]] == list(range(first, last))
    found = interior(body, AXES[1], [AXES[2]], AXES[3])
    if last - first < 20:
        assert found is None
        return
    assert found is not None and (found.first, found.stop, found.others) == (first, last, ())
    assert found.sure == {Range(value, stop)}


def test_what_another_axis_decides_is_left_to_be_asked() -> None:
    found = interior(_one_range(y + tap - 1, 20), AXES[1], [AXES[2]], AXES[3])
    assert found is not None and (found.first, found.stop) == (0, 40)
    assert set(found.others) == {(y - 1, 20), (y + 1, 20)}


@pytest.mark.parametrize("value", [c + tap - 1, x + c - 1, x % 7 - 1, x + tap])
def test_ranges_that_are_kept(value: Extent) -> None:
    """Of the lanes, of two axes, not linear, or true anyway: no second form is written for these."""
    assert interior(_one_range(value, 60), AXES[1], [AXES[2]], AXES[3]) is None
    assert interior(_one_range(x + tap - 1, 40, 2), AXES[1], [AXES[2]], AXES[3]) is None
