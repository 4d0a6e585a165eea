"""The builder: one node per value, trivial requests folded, shapes and types checked."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder, ShapeError, broadcast_shapes
from habana_tf.ir.constant_folding import constant
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Op

F32, I32 = DType.F32, DType.I32


@pytest.fixture
def b():
    return Builder()


def test_equal_requests_give_one_node(b):
    x = b.input((2, 3), F32)
    assert b.map("exp", x) is b.map("exp", x)
    assert b.reduce("sum", x, [1]) is b.reduce("sum", x, [-1])
    assert b.input((2, 3), F32) is not x
    assert b.const(1, F32) is not b.const(1, I32)
    assert b.const(0.0, F32) is not b.const(-0.0, F32)
    assert b.const(float("nan"), F32) is b.const(float("nan"), F32)


def test_what_changes_nothing_makes_no_node(b):
    x = b.input((2, 3), F32)
    assert b.reshape(x, (2, 3)) is x and b.expand(x, (2, 3)) is x
    assert b.permute(x, (0, 1)) is x
    assert b.slice(x, (0, 0), (2, 3)) is x
    assert b.pad(x, (0, 0), (0, 0)) is x
    assert b.cast(x, F32) is x
    assert b.reduce("sum", x, []) is x
    assert b.concat([x], 0) is x
    assert b.concat([x, b.const(0, F32, (0, 3))], 0) is x


@pytest.mark.parametrize("shape", [(64, 64), (1, 40, 120), (1, 1, 200, 30)])
@pytest.mark.parametrize("first", [0, 1, 5])
def test_large_triangles_are_no_constants(b, shape, first):
    array = np.broadcast_to(np.tri(*shape[-2:], first - 1, dtype=bool), shape)
    node = b.literal(array)
    assert node.op is not Op.CONST
    np.testing.assert_array_equal(constant(node, {}), array)
    for other in (array[..., ::-1], ~array):
        assert b.literal(other).op is Op.CONST
    odd = array.copy()
    odd[..., -1, 3] ^= True
    assert b.literal(odd).op is Op.CONST
    assert b.literal(array[..., :8, :8]).op is Op.CONST  # small


def test_views_of_views_join(b):
    x = b.input((2, 3, 4), F32)
    assert b.reshape(b.reshape(x, (6, 4)), (24,)).src == (x,)
    assert b.permute(b.permute(x, (2, 0, 1)), (1, 2, 0)) is x


def test_literals(b):
    assert b.literal(np.full((2, 2), 3, np.int32)) is b.const(3, I32, (2, 2))
    assert b.literal(np.array(1.5, np.float32)).shape == ()
    for array in (np.arange(6, dtype=np.int64).reshape(2, 3), np.array([1.5, -0.0], ml_dtypes.bfloat16),
                  np.array([True, False]), np.zeros((0, 2), np.float32)):  # fmt: skip
        node = b.literal(array)
        got = constant(node, {})
        assert node.shape == array.shape and got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)
    assert b.literal(np.array([0.0, -0.0], np.float32)).op is Op.CONST  # not uniform: the signs differ


def test_shapes_are_checked(b):
    x, y = b.input((2, 3), F32), b.input((3, 2), F32)
    for wrong in (
        lambda: b.map("add", x, y),
        lambda: b.map("add", x, b.cast(x, I32)),
        lambda: b.map("add", x),
        lambda: b.map("no such function", x),
        lambda: b.binary("add", x, y),
        lambda: b.reshape(x, (4,)),
        lambda: b.expand(x, (2, 4)),
        lambda: b.reduce("median", x, [0]),
        lambda: b.contract(x, y, Contraction((0, 1), (0, 2), (1, 2))),
        lambda: b.window(x, [1], [4], [1]),
    ):
        with pytest.raises(ShapeError):
            wrong()


def test_types_of_results(b):
    x = b.input((2,), DType.BF16)
    assert b.map("lt", x, x).dtype is DType.BOOL and b.map("isnan", x).dtype is DType.BOOL
    assert b.select(b.map("lt", x, x), x, x).dtype is DType.BF16
    assert b.reduce("argmax", x, [0], I32).dtype is I32 and b.reduce("argmax", x, [0]).dtype is DType.I64
    spec = Contraction((0,), (0,), ())
    assert b.contract(x, x, spec).dtype is DType.BF16 and b.contract(x, x, spec, F32).dtype is F32


def test_shapes_of_results(b):
    x = b.input((4, 5), F32)
    assert b.window(x, (1,), (3,), (2,)).shape == (4, 2, 3)
    assert b.pad(x, (1, 0), (0, 2), 0, (1, 0)).shape == (8, 7)
    assert b.iota((2, 3), 1).shape == (2, 3)
    i = b.input((7, 2), I32)
    assert b.gather(x, [i], [1]).shape == (7, 2, 4)
    assert b.broadcast_in_dim(b.input((5,), F32), (5, 3), (0,)).shape == (5, 3)


def test_symbolic_shapes(b):
    n = ext.sym(0)
    x = b.input((n, 4), F32)
    assert b.reshape(x, (ext.mul(n, 2), 2)).shape == (2 * n, 2)
    assert b.binary("add", x, b.input((4,), F32)).shape == (n, 4)
    assert b.window(x, (0,), (2,), (1,)).shape == (n - 1, 4, 2)
    with pytest.raises(ShapeError):
        b.binary("add", x, b.input((ext.sym(1), 4), F32))


def test_broadcast_shapes():
    assert broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert broadcast_shapes((), (0, 1)) == (0, 1)
    with pytest.raises(ShapeError, match="do not broadcast"):
        broadcast_shapes((2,), (3,))
