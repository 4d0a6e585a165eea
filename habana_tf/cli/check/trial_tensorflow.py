"""What `trial` runs of TensorFlow."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import Any


def load() -> str:
    import tensorflow as tf

    return str(tf.__version__)


def device() -> str:
    import tensorflow as tf

    import habana_tf

    habana_tf.load_habana_module()
    with tf.device("/HPU:0"):
        where = str(tf.identity(tf.constant([1.0, 2.0])).device)  # needs no recipe: the compiler is the next stage
    if not where.endswith("HPU:0"):
        raise RuntimeError(f"an op of /HPU:0 ran on {where}")
    return where


def step(device: str, inputs: list[Any]) -> list[Any]:
    import tensorflow as tf

    def gradients(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(tf.reduce_logsumexp(tf.tanh(tf.matmul(x, weights)), axis=1))
        return loss, tape.gradient(loss, weights)

    with tf.device("/CPU:0"):
        given = [tf.constant(each) for each in inputs]
    with tf.device(f"/{device.upper()}:0"):
        run = tf.function(gradients) if device == "hpu" else gradients
        return [result.numpy() for result in run(*given)]


def _horovod() -> dict[str, Any]:
    """The library, which is linked against TensorFlow and MPI; jobs of several ranks are not tried."""
    if importlib.util.find_spec("horovod") is None:
        return {}
    import horovod.tensorflow as hvd

    built = []
    for name, ask in (("Gloo", hvd.gloo_built), ("MPI", hvd.mpi_built)):
        with contextlib.suppress(Exception):
            built += [name] * bool(ask())
    return {"built": built}


MORE = {"Horovod": _horovod}
