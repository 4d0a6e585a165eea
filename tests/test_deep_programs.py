"""Programs of ten thousand ops in a row: nothing in the graph pass or the compiler is as deep as the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tests.child import on_hpu

LENGTH = 10_000
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]], "f4")


def check(f: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Asserts that a function has the same value on HPU as on the CPU."""
    values = []
    for device in ("/CPU:0", "/HPU:0"):
        with tf.device(device):
            values.append(tf.function(f)(tf.constant(X)).numpy())
    np.testing.assert_allclose(values[1], values[0], rtol=1e-5)


@on_hpu
def test_sums() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(LENGTH):
            y = y + x
        return y

    check(f)


@on_hpu
def test_sums_of_losses() -> None:
    check(lambda x: tf.add_n([tf.reduce_sum((x * (k % 7 + 1.0)) ** 2) for k in range(LENGTH // 20)]))


@on_hpu
def test_selects() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for k in range(LENGTH // 4):
            y = tf.where(y > k % 3 - 1.0, y - 0.25, x)
        return y

    check(f)


@on_hpu
def test_views() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for k in range(LENGTH // 3):
            y = tf.transpose(tf.reshape(y, [3, 2] if k % 2 else [2, 3]))
        return tf.reshape(y, [-1]) + 1.0

    check(f)


@on_hpu
def test_paddings() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(LENGTH // 10):
            y = tf.pad(y[:, 1:], [[0, 0], [0, 1]]) + x
        return y

    check(f)


@on_hpu
def test_concats() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(LENGTH // 20):
            y = tf.concat([y[:1], x[1:] + 1.0], 0)
        return y

    check(f)


@on_hpu
def test_control_edges() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for k in range(LENGTH // 4):
            with tf.control_dependencies([y]):
                y = tf.identity(x) * (k % 5)
        return y

    check(f)


@on_hpu
def test_sizes() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        size = tf.shape(x)[0]
        for k in range(LENGTH // 5):
            size = (size + k) // 2 + 1
        return tf.reduce_sum(x) + tf.reduce_sum(tf.fill([size % 7], 1.0))

    check(lambda x: tf.function(f, input_signature=[tf.TensorSpec([None, 3])])(x))


@on_hpu
def test_assigns() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        for k in range(LENGTH // 10):
            variable.assign_add(x * (k % 3 - 1.0))
        return variable.read_value()

    with tf.device("/HPU:0"):
        variable = tf.Variable(X)
    got = tf.function(f)(tf.constant(X)).numpy()
    np.testing.assert_allclose(got, X + X * sum(k % 3 - 1.0 for k in range(LENGTH // 10)), rtol=1e-4, atol=1e-4)
