"""Large constants that are triangles become comparisons; others stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.tensorflow.graph import triangles
from tests.child import on_hpu
from tests.tensorflow.graph.harness import build, inputs, prepared, v1


def _graph(value: Any) -> Callable[[], None]:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        with tf.control_dependencies([tf.abs(x, name="a")]):
            c = tf.constant(value, name="c")
        tf.identity(c, name="y")

    return make


def _op(value: Any) -> str:
    v, _, _ = prepared(build(_graph(value)))
    triangles.compute(v)
    op: str = v.by_name["c"].op
    return op


@pytest.mark.parametrize("shape", [(300, 300), (1, 1, 320, 280), (1, 200, 400)])
@pytest.mark.parametrize("first", [0, 1, 30])
def test_a_large_triangle_is_a_comparison(shape: tuple[int, ...], first: int) -> None:
    want = np.tri(*shape[-2:], first - 1, dtype=bool).reshape(shape)
    v, _, _ = prepared(build(_graph(want)))
    triangles.compute(v)
    node = v.by_name["c"]
    assert node.op == "Greater" and inputs(node) == ["c/rows", "c/columns"]
    assert all(inputs(side) == ["^a"] for side, _ in node.inputs)
    rows, columns = (tf.make_ndarray(side.proto.attr["value"].tensor) for side, _ in node.inputs)
    np.testing.assert_array_equal(np.greater(rows, columns), want)


def test_other_constants_stay() -> None:
    triangle = np.tri(300, 300, dtype=bool)
    assert _op(triangle) == "Greater"
    odd = triangle.copy()
    odd[7, 250] = True
    for value in (odd, ~triangle, triangle[::-1], triangle.astype(np.int8), np.stack([triangle] * 2)):
        assert _op(value) == "Const"
    assert _op(triangle[:100, :100]) == "Const"  # small enough to be in a cluster


def test_a_preserved_one_stays() -> None:
    v, _, _ = prepared(build(_graph(np.tri(300, 300, dtype=bool))))
    v.preserved = v.preserved | {"c"}
    triangles.compute(v)
    assert v.by_name["c"].op == "Const"


@on_hpu
def test_attention_under_a_causal_mask_computes_it() -> None:
    """With the results of the CPU."""
    import habana_tf

    habana_tf.load_habana_module()
    attention = tf.keras.layers.MultiHeadAttention(2, 8)
    x = tf.random.stateless_normal((1, 300, 16), [1, 2])
    attention(x, x)
    call = tf.function(lambda x: attention(x, x, use_causal_mask=True))
    with tf.device("/CPU:0"):
        want = tf.function(lambda x: attention(x, x, use_causal_mask=True))(x)
    with tf.device("/HPU:0"):
        got = call(x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
