from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from habana_tf.tensorflow.graph.data_dependent_sizes import decided_by_data
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import build, v1


def cuts(make: Callable[[], object]) -> set[tuple[str, str]]:
    return {(a.name, b.name) for a, b in decided_by_data(View(build(make)).topological())}


def images() -> tf.Tensor:
    return v1.placeholder(tf.float32, (2, 8, 8, 1), "images")


def test_a_size_that_is_drawn_or_measured_is_cut_off() -> None:
    def make() -> None:
        x = images()
        at = tf.cast(tf.random.uniform(()) * 4, tf.int32, name="at")
        tf.slice(x, tf.stack([0, at, 0, 0], name="begin"), [2, 4, 8, 1], name="crop")
        tf.raw_ops.Fill(dims=tf.reshape(at, [1], name="width"), value=1.0, name="line")
        tf.raw_ops.Range(start=0, limit=tf.cast(tf.reduce_max(x), tf.int32, name="most"), delta=1, name="range")

    assert cuts(make) == {("begin", "crop"), ("width", "line"), ("most", "range")}


def test_an_integer_that_is_drawn_is_data_too() -> None:
    def make() -> None:
        n = tf.random.uniform((1,), 1, 5, tf.int32, name="drawn")
        tf.raw_ops.Fill(dims=n, value=1.0, name="line")

    assert {b for _, b in cuts(make)} == {"line"}


def test_shape_arithmetic_and_what_the_host_gives_are_not() -> None:
    """Also where it goes through floating-point numbers, as in half of an image's height."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (None, None, 4), "x")
        half = tf.cast(tf.cast(tf.shape(x)[1], tf.float32) * 0.5, tf.int32)
        tf.reshape(x, tf.stack([-1, half]))
        n = v1.placeholder(tf.int32, (), "n")
        tf.fill(tf.stack([n + 1, 2]), 1.0)

    assert cuts(make) == set()
