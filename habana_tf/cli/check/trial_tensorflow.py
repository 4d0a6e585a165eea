"""What `trial` runs of TensorFlow."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from typing import Any

from habana_tf.cli.check.trial_step import Stage, compared, compiled, inputs


def _tensorflow(kept: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    kept["tf"] = tf
    return {"version": tf.__version__}


def _hpu(kept: dict[str, Any]) -> dict[str, Any]:
    import habana_tf

    tf = kept["tf"]
    habana_tf.load_habana_module()
    with tf.device("/HPU:0"):
        where = tf.identity(tf.constant([1.0, 2.0])).device  # needs no recipe: the compiler is the next stage
    if not where.endswith("HPU:0"):
        raise RuntimeError(f"an op of /HPU:0 ran on {where}")
    return {"device": where}


def _compiled(kept: dict[str, Any]) -> dict[str, Any]:
    tf = kept["tf"]
    kept["step"] = _step(tf)

    def run() -> list[Any]:
        with tf.device("/HPU:0"):
            return [result.numpy() for result in tf.function(kept["step"])(*_inputs(tf))]

    return compiled(kept, run, "TensorFlow")


def _step(tf: Any) -> Callable[..., Any]:
    def step(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(tf.reduce_logsumexp(tf.tanh(tf.matmul(x, weights)), axis=1))
        return loss, tape.gradient(loss, weights)

    return step


def _inputs(tf: Any) -> list[Any]:
    with tf.device("/CPU:0"):
        return [tf.constant(each) for each in inputs()]


def _numbers(kept: dict[str, Any]) -> dict[str, Any]:
    """The same step by TensorFlow on the CPU."""
    tf = kept["tf"]
    with tf.device("/CPU:0"):
        return compared(kept, [result.numpy() for result in kept["step"](*_inputs(tf))])


def _horovod(kept: dict[str, Any]) -> dict[str, Any]:
    """The library, which is linked against TensorFlow and MPI; jobs of several ranks are not tried."""
    if importlib.util.find_spec("horovod") is None:
        return {}
    import horovod.tensorflow as hvd

    built = []
    for name, ask in (("Gloo", hvd.gloo_built), ("MPI", hvd.mpi_built)):
        with contextlib.suppress(Exception):
            built += [name] * bool(ask())
    return {"built": built}


STAGES: dict[str, Stage] = {
    "TensorFlow": _tensorflow,
    "HPU": _hpu,
    "compiler": _compiled,
    "numbers": _numbers,
    "Horovod": _horovod,
}
