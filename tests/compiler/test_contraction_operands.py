"""Contractions read through windows and padding: what is copied, what is not, and that the numbers are right."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import Schedule, schedule
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op, Program
from tests.compiler.running import check

F = DType.F32


def _plan(b: Builder, *outputs: Node) -> Schedule:
    return schedule(rewrite(Program(b.inputs, list(outputs))))


def _windows(b: Builder, x: Node, low: int, high: int, value: float = 0, stride: int = 1) -> Node:
    """x[N, H, W, C] padded, seen through windows of 3x3."""
    x = b.pad(x, [0, low, low, 0], [0, high, high, 0], value)
    return b.window(x, [1, 2], [3, 3], [stride, stride])


def _conv(b: Builder, windows: Node, w: Node) -> Node:
    return b.contract(windows, w, Contraction((0, 1, 2, 3, 4, 5), (4, 5, 3, 6), (0, 1, 2, 6)))


def _filter_gradient(b: Builder, windows: Node, dy: Node) -> Node:
    return b.contract(windows, dy, Contraction((0, 1, 2, 3, 4, 5), (0, 1, 2, 6), (4, 5, 3, 6)))


def _data(b: Builder) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal([int(n) for n in x.shape]).astype(x.dtype.numpy) for x in b.inputs]


@pytest.mark.parametrize("dtype", [F, DType.BF16], ids=str)
@pytest.mark.parametrize(("size", "stride"), [(9, 1), (30, 1), (13, 2)])
def test_zero_padding_is_not_copied(size: int, stride: int, dtype: DType) -> None:
    b = Builder()
    x, w = b.input((2, size, size, 16), dtype), b.input((3, 3, 16, 24), dtype)
    y = _conv(b, _windows(b, x, 1, 1, stride=stride), w)
    assert _plan(b, y).kept == {x, w, y}
    tolerance = 1e-4 if dtype is F else 2e-2
    check(Program(b.inputs, [y]), _data(b), rtol=tolerance, atol=tolerance)


def test_an_input_gradient_reads_its_argument_unpadded() -> None:
    b = Builder()
    dy, w = b.input((2, 11, 11, 16), F), b.input((3, 3, 8, 16), F)
    turned = b.reverse(w, [0, 1])
    dx = b.contract(_windows(b, dy, 2, 2), turned, Contraction((0, 1, 2, 3, 4, 5), (4, 5, 6, 3), (0, 1, 2, 6)))
    assert _plan(b, dx).kept == {dy, w, dx}
    check(Program(b.inputs, [dx]), _data(b), rtol=1e-4, atol=1e-4)


def test_padding_with_another_value_is_copied() -> None:
    b = Builder()
    x, w = b.input((2, 9, 9, 16), F), b.input((3, 3, 16, 24), F)
    y = _conv(b, _windows(b, x, 1, 1, value=2.0), w)
    assert any(n.op is Op.PAD for n in _plan(b, y).kept)
    check(Program(b.inputs, [y]), _data(b), rtol=1e-4, atol=1e-4)


def test_a_copy_that_one_needs_serves_the_others() -> None:
    """A filter gradient needs the padded input in memory; the convolution beside it reads the same copy."""
    b = Builder()
    x, w, dy = b.input((2, 9, 9, 16), F), b.input((3, 3, 16, 24), F), b.input((2, 9, 9, 24), F)
    seen = _windows(b, x, 1, 1)
    y, dw = _conv(b, seen, w), _filter_gradient(b, seen, dy)
    plan = _plan(b, y, dw)
    (pad,) = [n for n in plan.kept if n.op is Op.PAD]
    assert {v.base for k in plan.kernels for v in k.operands} == {pad, w, dy}
    check(Program(b.inputs, [y, dw]), _data(b), rtol=1e-4, atol=1e-4)


def test_padding_below_other_views() -> None:
    """A slice of the padded image, its channels moved to the end first."""
    b = Builder()
    x, w = b.input((2, 16, 9, 9), F), b.input((3, 3, 16, 24), F)
    x_last = b.pad(b.permute(x, [0, 2, 3, 1]), [0, 1, 1, 0], [0, 1, 1, 0])
    part = b.slice(x_last, [0, 0, 1, 0], [2, 11, 8, 16])
    y = _conv(b, b.window(part, [1, 2], [3, 3], [1, 1]), w)
    assert _plan(b, y).kept == {x, w, y}
    check(Program(b.inputs, [y]), _data(b), rtol=1e-4, atol=1e-4)
