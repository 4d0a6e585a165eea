"""Eager ops met for the first time: how many recipes they need, and the numbers they give."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.child import on_hpu

SHAPES = [(2, 6, 5, 8), (1, 9, 9, 8), (3, 4, 4, 160), (2, 7, 7, 200), (1, 1, 1, 130), (5, 3, 2, 1)]


def recipes(op: str) -> int:
    """Recipes compiled so far for an op by itself."""
    import habana_tf

    found: dict[str, int] = habana_tf.recompilation_report().one_op.get(op, {})
    return found.get("compiled", 0)


def both(call: Any, *arrays: Any) -> tuple[list[Any], list[Any]]:
    """What HPU and stock TensorFlow give."""
    import tensorflow as tf

    out = []
    for device in ("/HPU:0", "/CPU:0"):
        with tf.device(device):
            made = tf.nest.flatten(call(*(tf.constant(a) for a in arrays)))
            out.append([np.asarray(tf.cast(x, tf.float32)) for x in made])
    return out[0], out[1]


@on_hpu
def test_batch_normalization_by_given_statistics_has_one_recipe() -> None:
    """For all shapes but those of many short rows, whatever the images' sizes and the number of channels."""
    import tensorflow as tf

    def normal(x: Any, *channels: Any) -> Any:
        scale, offset, mean, variance = channels
        return tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=offset, mean=mean, variance=variance, is_training=False
        )[:3]

    rng = np.random.default_rng(0)
    before = recipes("FusedBatchNormV3")
    for shape in [*SHAPES, (2, 90, 100, 20)]:
        channels = rng.random((4, shape[-1]), np.float32) + 0.5
        got, want = both(normal, rng.random(shape, np.float32), *channels)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
    assert recipes("FusedBatchNormV3") - before == 2


@on_hpu
def test_a_bias_has_one_recipe_per_rank() -> None:
    import tensorflow as tf

    rng = np.random.default_rng(1)
    before = recipes("BiasAdd")
    for shape in [*SHAPES, (3, 17), (64, 1000), (2, 5, 33), (4, 1, 1)]:
        for dtype in (tf.float32, tf.bfloat16):

            def biased(x: Any, bias: Any, dtype: Any = dtype) -> Any:
                return tf.nn.bias_add(tf.cast(x, dtype), tf.cast(bias, dtype))

            got, want = both(biased, rng.random(shape, np.float32), rng.random(shape[-1:], np.float32))
            np.testing.assert_allclose(got[0], want[0], rtol=1e-2 if dtype is tf.bfloat16 else 1e-6)
    assert recipes("BiasAdd") - before == 6


@on_hpu
def test_channels_that_do_not_fit_are_refused() -> None:
    import pytest
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match="as many biases"):
        tf.raw_ops.BiasAdd(value=tf.ones([2, 3, 3, 16]), bias=tf.ones([8]))
