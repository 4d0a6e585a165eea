"""Callables of a session that feed a placeholder with what they fetch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.child import on_hpu


def answers(device: str, pairs: int, x: Any) -> list[Any]:
    """What a callable computes whose placeholders, so many, are connected with tensors of the same graph."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
        with tf.device(device):
            start = v1.get_variable("start", initializer=x, use_resource=True)
            made = [tf.tanh(start) * float(k + 1) for k in range(pairs)]
            fed = [v1.placeholder(tf.float32, [None, x.shape[1]]) for _ in range(pairs)]
            other = v1.placeholder(tf.float32, [])
            out = tf.add_n([tf.tanh(tf.matmul(f, f, transpose_b=True)) * other for f in fed])
        options = config_pb2.CallableOptions()
        options.feed.append(other.name)
        options.fetch.extend([out.name, made[0].name])
        for source, target in zip(made, fed, strict=True):
            connection = options.tensor_connection.add()
            connection.from_tensor, connection.to_tensor = source.name, target.name
        session.run(start.initializer)
        call = session._make_callable_from_options(options)
        return [call(np.float32(scale)) for scale in (0.5, 2.0)]


@on_hpu
def test_a_placeholder_is_fed_with_what_is_fetched() -> None:
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    for pairs in (1, 2, 3):
        ours, stock = (answers(device, pairs, x) for device in ("/HPU:0", "/CPU:0"))
        for mine, theirs in zip(ours, stock, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@on_hpu
def test_what_is_fetched_and_fed_apart_is_one_launch() -> None:
    """A result that depends on what is fed, and one of another type that does not."""
    import tensorflow as tf

    from habana_tf._native import _bridge

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session, tf.device("/HPU:0"):
        x, y = (v1.placeholder(tf.float32, [4, 3]) for _ in range(2))
        hidden = tf.tanh(x)
        out = tf.reduce_sum(hidden * y)
        values = {x: np.ones((4, 3)), y: np.ones((4, 3))}
        session.run([out, hidden], values)
        before = _bridge.counters()["launches"]
        session.run([out, hidden], values)
        assert _bridge.counters()["launches"] - before == 1
