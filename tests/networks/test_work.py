"""The count of multiply-adds is the one of a textbook."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.networks.work import contractions, on_hpu


def traced(function, *shapes):
    return tf.function(function).get_concrete_function(*(tf.TensorSpec(s, tf.float32) for s in shapes))


@pytest.mark.parametrize(
    ("function", "shapes", "kind", "count"),
    [
        (tf.matmul, [(2, 3), (3, 5)], "MatMul", 2 * 3 * 5),
        (lambda a, b: tf.matmul(a, b, True, True), [(3, 2), (5, 3)], "MatMul", 2 * 3 * 5),
        (tf.matmul, [(7, 2, 3), (3, 5)], "BatchMatMulV2", 7 * 2 * 3 * 5),
        (lambda a, b: tf.einsum("...ij,jk->...k", a, b), [(7, 2, 3), (3, 5)], "Einsum", 7 * 2 * 3 * 5),
        (lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), [(2, 8, 8, 4), (3, 3, 2, 6)], "Conv2D", 2 * 4 * 4 * 6 * 3 * 3 * 2),
        (
            lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID"),
            [(2, 8, 8, 4), (3, 3, 4, 2)],
            "DepthwiseConv2dNative",
            2 * 6 * 6 * 8 * 3 * 3,
        ),
    ],
)
def test_counts_one_op(function, shapes, kind, count) -> None:
    assert contractions(traced(function, *shapes), 1) == {kind: [count]}


def test_a_gradient_costs_as_much_as_the_convolution_and_one_that_nobody_asks_for_nothing() -> None:
    def gradients(x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = tf.nn.conv3d(x, w, [1] * 5, "SAME")
        return tape.gradient(y, (x, w))[1]

    work = contractions(traced(gradients, (1, 4, 4, 4, 2), (3, 3, 3, 2, 5)), 1)
    assert work == {"Conv3DBackpropFilterV2": [64 * 5 * 27 * 2]}


def test_functions_of_a_loop_are_looked_into() -> None:
    def loop(x, w):
        return tf.while_loop(lambda x: tf.reduce_sum(x) < 9, lambda x: [x @ w], [x])

    assert contractions(traced(loop, (2, 3), (3, 3)), 1) == {"MatMul": [18]}


def test_only_what_is_certain_is_the_card_s() -> None:
    work = {"MatMul": [10, 1, 100], "Conv2D": [7]}
    assert on_hpu(work, {"MatMul": 2}) == 11
    assert on_hpu(work, {"MatMul": 5, "Conv2D": 1, "Relu": 3}) == 118
