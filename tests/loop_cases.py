"""Loops on both devices: their results and gradients, and in how many launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

X = np.random.default_rng(0).uniform(-1, 1, (6, 4, 5)).astype("f4")
W = np.random.default_rng(1).uniform(-0.5, 0.5, (5, 5)).astype("f4")


def compare(f: Callable[..., Any], *arrays: Any, launches: int | None = 6, gradients: bool = True) -> int:
    """A function and its gradients on both devices; all of a second call in at most so many launches and ops of
    TensorFlow's own (on lists), if there is a number. Returns how many results and gradients there are."""
    from habana_tf._native import _bridge

    def run(device: str) -> list[Any]:
        with tf.device(device):
            inputs = [tf.constant(a) for a in arrays]

            @tf.function
            def step(*xs: tf.Tensor) -> list[tf.Tensor]:
                with tf.GradientTape() as tape:
                    tape.watch(xs)
                    results = tf.nest.flatten(f(*xs))
                    loss = tf.add_n([tf.reduce_sum(tf.cast(r, tf.float32) ** 2) for r in results])
                if not gradients:
                    return results
                found = tape.gradient(loss, [x for x in xs if x.dtype.is_floating])
                return [*results, *(tf.convert_to_tensor(g) for g in found if g is not None)]

            step(*inputs)
            before = _bridge.counters()
            out = [r.numpy() for r in step(*inputs)]
            if device == "/HPU:0" and launches is not None:
                after = _bridge.counters()
                assert sum(after[k] - before[k] for k in ("launches", "stock_ops")) <= launches
            return out

    expected, got = run("/CPU:0"), run("/HPU:0")
    assert len(expected) == len(got)
    for e, g in zip(expected, got, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(e).max(initial=0.0))))
    return len(got)


def written(x: tf.Tensor, body: Callable[..., Any], steps: Any, size: int = 6) -> tf.Tensor:
    """The elements that iterations write, from those they read."""
    xs, ys = tf.TensorArray(tf.float32, size).unstack(x), tf.TensorArray(tf.float32, size)
    state = tf.zeros_like(x[0])

    def one(i: tf.Tensor, s: tf.Tensor, ys: tf.TensorArray) -> Any:
        y, s = body(xs.read(i), s)
        return i + 1, s, ys.write(i, y)

    return tf.while_loop(lambda i, *_: i < steps, one, (0, state, ys))[2].stack()
