"""Loops that run in a launch compute what TensorFlow does on the CPU, gradients too; others stay loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.child import on_hpu
from tests.loop_cases import W, X, compare, written


@on_hpu
def test_what_is_read_and_written_by_steps() -> None:
    def body(x: tf.Tensor, s: tf.Tensor) -> Any:
        s = tf.tanh(x @ W + s @ W)
        return s @ W, s

    compare(lambda x, w: written(x, lambda t, s: ((y := tf.tanh(t @ w + s @ w)) @ w, y), 6), X, W)
    compare(lambda x: written(x, body, 6), X)


@on_hpu
def test_a_loop_and_its_gradient_are_one_launch() -> None:
    """How often and where the gradient reads follows from the loop's counter, whatever else that computes."""
    compare(lambda x, w: written(x, lambda t, s: ((y := tf.tanh(t @ w + s @ w)) @ w, y), 6), X, W, launches=1)
    compare(lambda x, w: tf.scan(lambda s, t: tf.tanh(s @ w + t), x, initializer=tf.zeros((4, 5))), X, W, launches=1)


@on_hpu
def test_a_loop_as_long_as_another_ends_by_data_is_not_part_of_it() -> None:
    """The length of the second is a number that the first computes."""

    def f(x: tf.Tensor, w: tf.Tensor) -> Any:
        most = tf.while_loop(lambda i, m: i < 6, lambda i, m: (i + 1, tf.maximum(m, tf.reduce_max(x[i]))), (0, -9.0))[1]
        count = tf.cast(most * 3 + 2, tf.int32)
        return tf.while_loop(lambda i, s: i < count, lambda i, s: (i + 1, s @ w + x[0]), (0, x[1]))[1]

    compare(f, X, W, launches=None, gradients=False)
    compare(f, X / 2, W, launches=None, gradients=False)


@on_hpu
def test_scan_fold_and_map() -> None:
    compare(lambda x, w: tf.scan(lambda s, t: tf.tanh(s @ w + t), x, initializer=tf.zeros((4, 5))), X, W)
    compare(lambda x, w: tf.scan(lambda s, t: s @ w + t, x, initializer=tf.ones((4, 5)), reverse=True), X, W)
    compare(lambda x, w: tf.map_fn(lambda t: tf.nn.softmax(t @ w), x), X, W)
    compare(lambda x, w: tf.foldl(lambda s, t: s @ w + t, x), X, W)
    compare(lambda x, w: tf.foldr(lambda s, t: tf.sin(s @ w) + t, x), X, W)


@on_hpu
def test_sums_of_bf16_over_all_iterations_are_rounded_once() -> None:
    """Beside the sum in float64: in bf16 a rounding is 1/256 of the result at most, and a hundred of them are more."""
    x = tf.cast(np.random.default_rng(2).uniform(0, 1, (100, 3, 5)), tf.bfloat16)

    @tf.function
    def total() -> tf.Tensor:
        def one(i: tf.Tensor, h: tf.Tensor, s: tf.Tensor) -> Any:
            h = x[i] - h / 2
            return i + 1, h, s + tf.matmul(x[i], h, transpose_a=True)

        first = tf.zeros((3, 5), tf.bfloat16), tf.zeros((5, 5), tf.bfloat16)
        return tf.while_loop(lambda i, *_: i < 100, one, (0, *first))[2]

    with tf.device("/HPU:0"):
        got = total().numpy().astype("f8")
    want, h = np.zeros((5, 5)), np.zeros((3, 5))
    for t in x.numpy().astype("f8"):
        h = t - h / 2
        want += t.T @ h
    np.testing.assert_allclose(got, want, rtol=1 / 128)


@on_hpu
def test_no_iteration_and_one() -> None:
    for steps in (0, 1):
        compare(lambda x, w, n=steps: written(x[:n], lambda t, s: (t @ w + s, s + t), n, n) if n else tf.while_loop(
            lambda i, s: i < 0, lambda i, s: (i + 1, s @ w), (0, x[0]))[1], X, W, launches=None)  # fmt: skip


@on_hpu
def test_fewer_iterations_than_elements() -> None:
    """Elements that are not written are zeros."""

    def f(x: tf.Tensor) -> tf.Tensor:
        ys = tf.TensorArray(tf.float32, 6, element_shape=(4, 5))
        return tf.while_loop(lambda i, _: i < 4, lambda i, ys: (i + 1, ys.write(5 - i, x[i] * 2.0)), (0, ys))[1].stack()

    compare(f, X, launches=None, gradients=False)


@on_hpu
def test_positions_of_other_steps() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> Any:
        pairs = tf.while_loop(lambda i, s: i < 6, lambda i, s: (i + 2, s @ w + x[i] * x[i + 1]), (0, x[0]))[1]
        halves = tf.while_loop(lambda i, s: i < 6, lambda i, s: (i + 1, s @ w + x[i // 2]), (0, x[0]))[1]
        down = tf.while_loop(lambda i, s: i >= 0, lambda i, s: (i - 1, s @ w + x[i]), (5, x[0]))[1]
        return pairs, halves, down

    compare(f, X, W, launches=None)


@on_hpu
def test_a_counter_that_is_data() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> Any:
        def body(i: tf.Tensor, s: tf.Tensor) -> Any:
            return i + 1, tf.where(i % 2 == 0, s @ w, s) * tf.cast(i + 1, tf.float32)

        return tf.while_loop(lambda i, _: i < 5, body, (0, x[0]))

    compare(f, X, W, gradients=False, launches=3)


@on_hpu
def test_values_that_change_places() -> None:
    body = lambda i, a, b: (i + 1, b, a @ W)
    compare(lambda x: tf.while_loop(lambda i, *_: i < 5, body, (0, x[0], x[1]))[1:], X)


@on_hpu
def test_loops_in_loops() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        def outer(i: tf.Tensor, total: tf.Tensor) -> Any:
            inner = tf.while_loop(lambda j, _: j < 3, lambda j, s: (j + 1, tf.tanh(s @ w)), (0, total))[1]
            return i + 1, inner + x[i]

        return tf.while_loop(lambda i, _: i < 6, outer, (0, x[0]))[1]

    compare(f, X, W, launches=None)
    compare(f, X, W, launches=3, gradients=False)


@on_hpu
def test_branches_in_loops() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        def body(i: tf.Tensor, s: tf.Tensor) -> Any:
            return i + 1, tf.cond(tf.reduce_sum(x[i]) > 0.0, lambda: s @ w + x[i], lambda: tf.tanh(s))

        return tf.while_loop(lambda i, _: i < 6, body, (0, x[0]))[1]

    compare(f, X, W, launches=None)


@on_hpu
def test_ends_that_data_decide() -> None:
    from habana_tf import placement_report
    from habana_tf.tensorflow.graph.reasons import Reason

    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda s: tf.reduce_sum(s * s) > 0.5, lambda s: ((s @ w) * 0.5,), (x[0],))[0]

    compare(f, X, W, launches=None)
    assert any(reason is Reason.LOOP_BY_DATA for _, reason, _ in placement_report().totals)


@on_hpu
def test_a_tensor_that_grows_stays_a_loop() -> None:
    from habana_tf import placement_report
    from habana_tf.tensorflow.graph.reasons import Reason

    def f(x: tf.Tensor) -> tf.Tensor:
        grow = lambda i, s: (i + 1, tf.concat([s, x[i] * 2.0], 0))
        shapes = (tf.TensorShape(()), tf.TensorShape((None, 5)))
        return tf.while_loop(lambda i, _: i < 4, grow, (0, x[0]), shape_invariants=shapes)[1]

    compare(f, X, launches=None)
    assert any(reason is Reason.LOOP_SHAPE for _, reason, _ in placement_report().totals)


@on_hpu
def test_variables_and_random_numbers() -> None:
    """A variable that a loop reads is read before it; one that it assigns stays in a loop."""
    with tf.device("/HPU:0"):
        v, total = tf.Variable(W), tf.Variable(tf.zeros((4, 5)))

        @tf.function
        def reads(x: tf.Tensor) -> tf.Tensor:
            v.assign(v * 1.0 + 0.25)
            out = tf.while_loop(lambda i, s: i < 6, lambda i, s: (i + 1, tf.tanh(s @ v)), (0, x[0]))[1]
            v.assign_sub(tf.ones_like(v))
            return out

        @tf.function
        def assigns(x: tf.Tensor) -> None:
            for i in tf.range(6):
                total.assign_add(x[i])

        want = X[0]
        for _ in range(6):
            want = np.tanh(want @ (W + 0.25))
        np.testing.assert_allclose(reads(tf.constant(X)), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(v, W - 0.75, rtol=1e-5)
        assigns(tf.constant(X))
        np.testing.assert_allclose(total, X.sum(0), rtol=1e-4, atol=1e-5)


@on_hpu
def test_a_position_out_of_range_is_an_error() -> None:
    with tf.device("/HPU:0"):

        @tf.function
        def f(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
            return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s @ W + x[i]), (0, x[0]))[1]

        f(tf.constant(X), tf.constant(6))
        try:
            f(tf.constant(X), tf.constant(8))
        except tf.errors.InvalidArgumentError as why:
            assert "out of bounds" in str(why)
        else:
            raise AssertionError("no error")
