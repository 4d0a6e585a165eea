"""Loops, branches and lists on HPU: values and gradients of stock TensorFlow, and the loop's work in launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import habana_tf
from tests import loop_cases
from tests.child import on_hpu

X = np.random.default_rng(0).standard_normal((6, 4, 5)).astype("f4")
W = np.random.default_rng(1).standard_normal((5, 5)).astype("f4") * 0.5


def compare(f: Callable[..., Any], *arrays: Any) -> None:
    """Asserts that a function of float tensors has the same results and gradients on HPU as on the CPU."""
    assert loop_cases.compare(f, *arrays, launches=None) > len(arrays)


@on_hpu
def test_while_loop_with_captured_tensors() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        y = tf.tanh(x)
        _, out = tf.while_loop(lambda i, s: i < 6, lambda i, s: (i + 1, tf.tanh(s @ w) + y[i]), [0, x[0]])
        return tf.nn.relu(out)

    compare(f, X, W)


@on_hpu
def test_a_trip_count_that_depends_on_the_values() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        s = x[0]
        while tf.reduce_sum(s * s) > 0.5:
            s = (s @ w) * 0.5
        return s

    compare(f, X, W)


@on_hpu
def test_a_loop_with_break_and_branches() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        s = tf.zeros_like(x[0])
        for i in tf.range(6):
            if tf.reduce_sum(x[i]) > 0.0:
                s += x[i] @ w
            else:
                s -= tf.tanh(x[i])
            if i == 4:
                break
        return s

    compare(f, X, W)


@on_hpu
def test_nested_loops() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        total = tf.zeros((4, 5))
        for i in tf.range(3):
            inner = x[i]
            for _ in tf.range(i + 1):
                inner = tf.tanh(inner @ w)
            total += inner
        return total

    compare(f, X, W)


@on_hpu
def test_cond() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: x @ w, lambda: tf.sin(x))
        return tf.switch_case(tf.constant(1), [lambda: y, lambda: y * 2.0 + x, lambda: x])

    compare(f, X, W)
    compare(f, -X, W)


@on_hpu
def test_scan() -> None:
    compare(lambda x, w: tf.scan(lambda s, t: tf.tanh(s @ w + t), x, initializer=tf.zeros((4, 5))), X, W)


@on_hpu
def test_map_fn() -> None:
    compare(lambda x, w: tf.map_fn(lambda t: tf.nn.softmax(t @ w), x), X, W)


@on_hpu
def test_map_fn_over_two_tensors() -> None:
    def one(pair: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        return pair[0] * pair[1], tf.reduce_sum(pair[1])

    spec = (tf.TensorSpec((4, 5), tf.float32), tf.TensorSpec((), tf.float32))
    compare(lambda x, y: tf.map_fn(one, (x, y), fn_output_signature=spec), X, np.sin(X))


@on_hpu
def test_foldl() -> None:
    compare(lambda x, w: tf.foldl(lambda s, t: s @ w + t, x), X, W)


@on_hpu
def test_tensor_arrays() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False)
        for i in tf.range(6):
            array = array.write(i, x[i] @ w)
        array = array.write(2, x[0])
        parts = tf.TensorArray(tf.float32, 3, infer_shape=False).split(x[0], [1, 2, 1])
        return array.stack(), array.gather([5, 0, 5]), parts.concat() + array.read(1)

    compare(f, X, W)


@on_hpu
def test_reading_an_element_twice_adds_the_gradients() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        array = tf.TensorArray(tf.float32, 6, clear_after_read=False).unstack(x)
        s = tf.zeros((4, 5))
        for i in tf.range(4):
            s = tf.tanh(s + array.read(i // 2) * array.read(3 - i))
        return s

    compare(f, X)


@on_hpu
def test_elements_that_no_iteration_reads_have_a_zero_gradient() -> None:
    def f(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        array = tf.TensorArray(tf.float32, 6).unstack(x)
        s = tf.zeros((4, 5))
        for i in tf.range(tf.cast(tf.reduce_sum(n), tf.int32)):
            s += tf.sin(array.read(i))
        return s + tf.reduce_sum(n)

    for count in (3.0, 0.0):
        compare(f, X, np.array([count], "f4"))


@on_hpu
def test_lists_of_booleans() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        mask = x > 0.0
        masks = tf.TensorArray(tf.bool, 6).unstack(mask)
        values = tf.TensorArray(tf.float32, 6).unstack(x)
        s = tf.zeros((4, 5))
        for i in tf.range(6):
            s = tf.where(masks.read(i), tf.tanh(s + values.read(i)), s)
        return s

    compare(f, X)


@on_hpu
def test_a_variable_updated_in_a_loop() -> None:
    def run(device: str) -> tuple[Any, Any]:
        with tf.device(device):
            v = tf.Variable(tf.ones((4, 5)))
            x = tf.constant(X)

            @tf.function
            def f() -> tf.Tensor:
                before = v.read_value()
                for i in tf.range(4):
                    v.assign_add(x[i] * v)
                return v - before

            return f().numpy(), v.numpy()

    for got, expected in zip(run("/HPU:0"), run("/CPU:0"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@on_hpu
def test_lists_as_values() -> None:
    """The list ops themselves, eagerly and in a function."""
    from tensorflow.python.ops import list_ops

    def f(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        filled = list_ops.tensor_list_from_tensor(x, (4, 5))
        filled = list_ops.tensor_list_set_item(filled, 1, x[0])
        filled = list_ops.tensor_list_push_back(filled, x[2])
        filled, last = list_ops.tensor_list_pop_back(filled, tf.float32)
        empty = list_ops.tensor_list_reserve((4, 5), 2, tf.float32)
        length = tf.cast(list_ops.tensor_list_length(filled), tf.float32)
        shape = tf.cast(list_ops.tensor_list_element_shape(filled, tf.int32), tf.float32)
        return (
            list_ops.tensor_list_stack(filled, tf.float32), last, list_ops.tensor_list_stack(empty, tf.float32),
            list_ops.tensor_list_gather(filled, [1, 4], tf.float32), length, shape,
        )  # fmt: skip

    with tf.device("/CPU:0"):
        expected = f(tf.constant(X))
    for got in (f(tf.constant(X)), tf.function(f)(tf.constant(X))):
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g.numpy(), e.numpy())


@on_hpu
def test_a_condition_that_is_a_loop_variable_which_nothing_else_reads() -> None:
    def f(x: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def body(go: tf.Tensor, s: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, ...]:
            new = tf.tanh(s @ w) * 0.5
            return tf.reduce_any(tf.abs(new) > 0.1), new, tf.reduce_sum(new)

        start = tf.reduce_sum(tf.sin(x[0]))
        _, s, total = tf.while_loop(lambda go, *_: go, body, [True, x[0], start])
        return s * total, tf.cos(s)

    compare(f, X, W)


@on_hpu
def test_boxes_that_overlap_are_suppressed() -> None:
    """Loops in a loop, as many turns as the data ask for."""
    rng = np.random.default_rng(0)
    corner, size = rng.random((2, 2, 40, 2)).astype("f4")
    boxes, scores = np.concatenate([corner, corner + size], -1), rng.random((2, 40)).astype("f4")
    results = []
    for device in ("/CPU:0", "/HPU:0"):
        with tf.Graph().as_default(), tf.device(device), tf.compat.v1.Session() as session:
            kept = tf.image.non_max_suppression_padded(boxes, scores, 100, pad_to_max_output_size=True)
            results.append(session.run(kept))
    for mine, theirs in zip(results[1], results[0], strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@on_hpu
def test_windows_of_an_image() -> None:
    """Shifted windows: conds on sizes computed in floating point, roll, nested conds, in every block."""

    def block(x: tf.Tensor, window: int, shift: int) -> tf.Tensor:
        size = tf.shape(x)[1]
        small = tf.reduce_min(tf.shape(x)[1:3]) <= window
        moved = tf.cond(small, lambda: tf.constant(0), lambda: tf.constant(shift))
        missing = tf.cast(tf.math.ceil(tf.cast(size, tf.float64) / window), tf.int32) * window - size
        y = tf.cond(missing > 0, lambda: tf.pad(x, [[0, 0], [0, missing], [0, missing], [0, 0]]), lambda: x)
        y = tf.cond(moved > 0, lambda: tf.roll(y, [-moved, -moved], [1, 2]), lambda: y)
        y = tf.tanh(y) + tf.reduce_mean(y, [1, 2], keepdims=True)
        y = tf.cond(moved > 0, lambda: tf.roll(y, [moved, moved], [1, 2]), lambda: y)
        return tf.cond(missing > 0, lambda: y[:, :size, :size], lambda: y)

    x = np.random.default_rng(0).standard_normal((2, 10, 10, 4)).astype("f4")
    results = []
    for device in ("/CPU:0", "/HPU:0"):
        with tf.device(device):

            @tf.function(input_signature=[tf.TensorSpec([None, 10, 10, 4])])
            def f(x: tf.Tensor) -> tf.Tensor:
                for _ in range(3):
                    x = block(x, 4, 2)
                return x

            results.append(f(tf.constant(x)).numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)
    graph = habana_tf.placement_report().graphs[-1]
    assert len(graph.launches) == 1, graph.line()
