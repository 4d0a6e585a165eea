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
    for shape in [*SHAPES, (2, 90, 100, 20), (2, 400, 150, 20)]:
        channels = rng.random((4, shape[-1]), np.float32) + 0.5
        got, want = both(normal, rng.random(shape, np.float32), *channels)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
    assert recipes("FusedBatchNormV3") - before == 2


@on_hpu
def test_a_bias_has_one_recipe() -> None:
    import tensorflow as tf

    rng = np.random.default_rng(1)
    before = recipes("BiasAdd")
    for shape in [*SHAPES, (3, 17), (64, 1000), (2, 5, 33), (4, 1, 1)]:
        for dtype in (tf.float32, tf.bfloat16):

            def biased(x: Any, bias: Any, dtype: Any = dtype) -> Any:
                return tf.nn.bias_add(tf.cast(x, dtype), tf.cast(bias, dtype))

            got, want = both(biased, rng.random(shape, np.float32), rng.random(shape[-1:], np.float32))
            np.testing.assert_allclose(got[0], want[0], rtol=1e-2 if dtype is tf.bfloat16 else 1e-6)
    assert recipes("BiasAdd") - before == 2  # one per element type


def drawn(*shape: int) -> Any:
    return np.random.default_rng([1, *shape]).standard_normal(shape, np.float32)


@on_hpu
def test_products_have_one_recipe() -> None:
    """Matrix products, convolutions of every window and stride, and einsums: whatever their sizes."""
    import tensorflow as tf

    before = sum(map(recipes, ("MatMul", "Conv2D", "Einsum", "BatchMatMulV2")))
    cases: list[tuple[Any, Any, Any]] = [
        (tf.matmul, drawn(33, 17), drawn(17, 40)),
        (tf.matmul, drawn(5, 300), drawn(300, 3)),
        (lambda a, b: tf.matmul(a, b, transpose_a=True), drawn(30, 9), drawn(30, 65)),
        (tf.matmul, drawn(2, 3, 6, 7), drawn(2, 3, 7, 20)),
        (lambda a, b: tf.einsum("abc,cde->abde", a, b), drawn(2, 9, 24), drawn(24, 4, 8)),
        (lambda a, b: tf.einsum("acbe,aecd->abcd", a, b), drawn(2, 4, 9, 11), drawn(2, 11, 4, 16)),
    ]
    for kernel, stride, padding in ((1, 1, "VALID"), (1, 2, "SAME"), (3, 1, "SAME"), (3, 2, "SAME"), (7, 2, "VALID")):
        for channels in (1, 3, 40):

            def convolved(x: Any, w: Any, stride: int = stride, padding: str = padding) -> Any:
                return tf.nn.conv2d(x, w, stride, padding)

            cases.append((convolved, drawn(2, 13, 9, channels), drawn(kernel, kernel, channels, 21)))
    for call, x, y in cases:
        (got,), (want,) = both(call, x, y)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert sum(map(recipes, ("MatMul", "Conv2D", "Einsum", "BatchMatMulV2"))) - before == 1


@on_hpu
def test_depthwise_convolutions_have_one_recipe() -> None:
    import tensorflow as tf

    before = recipes("DepthwiseConv2dNative")
    for kernel, stride, padding in ((3, 1, "SAME"), (3, 2, "SAME"), (5, 1, "VALID"), (7, 2, "SAME")):
        for channels in (32, 144, 70):

            def convolved(x: Any, w: Any, stride: int = stride, padding: str = padding) -> Any:
                return tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding)

            (got,), (want,) = both(convolved, drawn(2, 13, 9, channels), drawn(kernel, kernel, channels, 1))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert recipes("DepthwiseConv2dNative") - before == 1


@on_hpu
def test_what_only_has_another_shape_is_copied_by_one_recipe() -> None:
    import tensorflow as tf

    before = recipes("Transpose")
    turns = (((1, 64, 128), (1, 0, 2)), ((64, 1, 128), (1, 0, 2)), ((1, 1, 5), (1, 0, 2)), ((2, 3, 1), (0, 2, 1)))
    for shape, order in turns:
        (got,), (want,) = both(lambda x, order=order: tf.transpose(x, order), drawn(*shape))
        np.testing.assert_array_equal(got, want)
    assert recipes("Transpose") - before == 1
    (got,), (want,) = both(lambda x: tf.transpose(x, (1, 0, 2)), drawn(3, 4, 5))
    np.testing.assert_array_equal(got, want)
    assert recipes("Transpose") - before == 2


@on_hpu
def test_a_softmax_has_one_recipe() -> None:
    import tensorflow as tf

    before = recipes("Softmax")
    for shape in ((2, 4, 18, 50), (300, 5), (64, 200), (1, 3)):
        (got,), (want,) = both(tf.nn.softmax, drawn(*shape))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert recipes("Softmax") - before == 1


@on_hpu
def test_a_padding_has_one_recipe_for_the_axes_that_are_padded() -> None:
    import tensorflow as tf

    before = recipes("Pad")
    for shape, high in (((1, 80, 70, 96), 1), ((2, 6, 8, 7), 3), ((3, 5, 1, 130), 2)):
        (got,), (want,) = both(lambda x, n=high: tf.pad(x, [[0, 0], [0, n], [0, 1], [0, 0]]), drawn(*shape))
        np.testing.assert_array_equal(got, want)
    assert recipes("Pad") - before == 1
    (got,), (want,) = both(lambda x: tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]]), drawn(1, 6, 6, 3))
    np.testing.assert_array_equal(got, want)
    assert recipes("Pad") - before == 2


@on_hpu
def test_channels_that_do_not_fit_are_refused() -> None:
    import pytest
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match="as many biases"):
        tf.raw_ops.BiasAdd(value=tf.ones([2, 3, 3, 16]), bias=tf.ones([8]))
