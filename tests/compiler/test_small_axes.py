"""Reductions over a window's taps, and one for each tap, give what the interpreter gives; the latter read once."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import target
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Program
from tests.compiler.running import check, compiled

F = DType.F32


def _windows(b: Builder, x: Node, kernel: tuple[int, int], stride: int) -> Node:
    padded = b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0])
    return b.cast(b.window(padded, (1, 2), kernel, (stride, stride), (1, 1)), F)


def _per_tap(b: Builder, windows: Node, dy: Node) -> Node:
    """For each tap and channel the sum of image times result."""
    columns = b.permute(windows, (0, 1, 2, 4, 5, 3))
    factors = b.reshape(b.cast(dy, F), (*dy.shape[:3], 1, 1, dy.shape[3]))
    return b.reduce("sum", b.binary("mul", columns, factors), (0, 1, 2))


@pytest.mark.parametrize("channels", [3, 16, pytest.param(70, marks=pytest.mark.rest)])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 2), (5, 2)])
@pytest.mark.parametrize("dtype", [F, DType.BF16], ids=str)
def test_taps(channels: int, kernel: tuple[int, int], dtype: DType, isa: str) -> None:
    for stride in (1, 2):
        b = Builder()
        x, w = b.input((2, 9, 8, channels), dtype), b.input((channels, *kernel), dtype)
        windows = _windows(b, x, kernel, stride)
        dy = b.input(windows.shape[:4], dtype)
        forward = b.reduce("sum", b.binary("mul", windows, b.cast(w, F)), (4, 5))
        greatest = b.reduce("max", windows, (4, 5))
        numbers = np.random.default_rng(channels)
        arrays = [numbers.normal(size=n.shape).astype(dtype.numpy) for n in b.inputs]
        arrays[0][0, 3, 3] = np.inf
        check(Program(b.inputs, [forward, greatest, _per_tap(b, windows, dy)]), arrays, atol=1e-5)


def test_the_sums_of_all_taps_are_of_one_work_item() -> None:
    """Which reads image and result once for all of them."""
    b = Builder()
    x, dy = (b.input((2, 9, 9, target().lanes), F) for _ in range(2))
    program = Program(b.inputs, [_per_tap(b, _windows(b, x, (3, 3), 1), dy)])
    numbers = np.random.default_rng(0)
    _, recipe = compiled(program, [numbers.normal(size=n.shape).astype(np.float32) for n in b.inputs])
    assert [call.grid for call in recipe.calls] == [1]


@pytest.mark.parametrize("vectors", [2, 4])
def test_maxima_and_places_of_two_vectors_at_a_time(vectors: int) -> None:
    """Four would be twice the code, and no faster."""
    b = Builder()
    x = b.input((6, 4, vectors * target().lanes), F)
    turned = b.permute(x, (0, 2, 1))
    program = Program(b.inputs, [b.reduce("max", turned, (2,)), b.reduce("argmax", turned, (2,), DType.I8)])
    texts: list[str] = []
    generate(schedule(program), target(), texts.append, 1 << 20)
    assert "".join(texts).count("fcmp ugt") == 2 * 4
    check(program, [np.random.default_rng(0).integers(0, 3, x.shape).astype(np.float32)])
