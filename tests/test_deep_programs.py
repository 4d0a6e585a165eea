"""Programs of thousands of ops in a row: nothing in the graph pass or the compiler is as deep as the program.

Up to ten thousand in `make test-all`. `make test` has a few more than Python's stack takes calls, which are fewer there
than Python's own limit, so that a function that calls itself for each of them ends in a RecursionError (fewer of ops
that become several primitives each).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu
from tests.effort import THOROUGH

pytestmark = pytest.mark.part


CALLS = 400
"""As many as fit into Python's stack in `make test`: what runs a test has a hundred or two below it."""


def length(most: int) -> int:
    """How many ops in a row: `most`, in `make test` a few more than calls fit into Python's stack."""
    if THOROUGH:
        return most
    sys.setrecursionlimit(CALLS)  # of the file's child, which runs nothing else
    return min(most, CALLS * 5 // 4)


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
        for _ in range(length(10_000)):
            y = y + x
        return y

    check(f)


@on_hpu
def test_sums_of_losses() -> None:
    check(lambda x: tf.add_n([tf.reduce_sum((x * (k % 7 + 1.0)) ** 2) for k in range(length(500))]))


@on_hpu
def test_selects() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for k in range(length(2_500)):
            y = tf.where(y > k % 3 - 1.0, y - 0.25, x)
        return y

    check(f)


@on_hpu
def test_views() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for k in range(length(3_333)):
            y = tf.transpose(tf.reshape(y, [3, 2] if k % 2 else [2, 3]))
        return tf.reshape(y, [-1]) + 1.0

    check(f)


@pytest.mark.rest
@on_hpu
def test_paddings() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(length(1_000)):
            y = tf.pad(y[:, 1:], [[0, 0], [0, 1]]) + x
        return y

    check(f)


@pytest.mark.rest
@on_hpu
def test_concats() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(length(500)):
            y = tf.concat([y[:1], x[1:] + 1.0], 0)
        return y

    check(f)


@on_hpu
def test_control_edges() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        y = x
        for k in range(length(2_500)):
            with tf.control_dependencies([y]):
                y = tf.identity(x) * (k % 5)
        return y

    check(f)


@on_hpu
def test_sizes() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        size = tf.shape(x)[0]
        for k in range(length(2_000)):
            size = (size + k) // 2 + 1
        return tf.reduce_sum(x) + tf.reduce_sum(tf.fill([size % 7], 1.0))

    check(lambda x: tf.function(f, input_signature=[tf.TensorSpec([None, 3])])(x))


@on_hpu
def test_assigns() -> None:
    count = length(1_000)

    def f(x: tf.Tensor) -> tf.Tensor:
        for k in range(count):
            variable.assign_add(x * (k % 3 - 1.0))
        return variable.read_value()

    with tf.device("/HPU:0"):
        variable = tf.Variable(X)
    got = tf.function(f)(tf.constant(X)).numpy()
    np.testing.assert_allclose(got, X + X * sum(k % 3 - 1.0 for k in range(count)), rtol=1e-4, atol=1e-4)
