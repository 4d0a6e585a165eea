"""The program that `habana-tf check` runs in a process of its own: loads HPU, compiles a small step, compares it with
the CPU, and imports Horovod.

It says in lines of JSON what it begins and what came of it, so that a crash, which ends it in the middle, is known to
be in the stage that was begun last. All else that it or TensorFlow prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import time
from collections.abc import Callable
from typing import Any

STAGES = ("TensorFlow", "HPU", "compiler", "numbers", "Horovod")
"""In their order. `device.py` names its findings after them."""
_WORST = 1e-5
"""Between sums of 96 products of fp32, whose order of additions differs: some tens of roundings of 6e-8."""


def main() -> None:
    """Runs the stages. Each gets what the ones before have left in `kept`; after one that failed only Horovod, which
    needs TensorFlow alone, is still tried."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    kept: dict[str, Any] = {}
    stages: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_tensorflow, _hpu, _compiled, _numbers, _horovod)
    failed = False
    for name, stage in zip(STAGES, stages, strict=True):
        if failed and (stage is not _horovod or "tf" not in kept):
            continue
        say(stage=name)
        start = time.perf_counter()
        try:
            found = stage(kept)
            say(stage=name, found=found, seconds=time.perf_counter() - start, cpu=kept.get("cpu"))
        except Exception as error:
            failed = True
            say(stage=name, error=f"{type(error).__name__}: {error}", cpu=kept.get("cpu"))


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
    """A training step in miniature: no recipe that comes with the package is for it, so it is compiled here."""
    from habana_tf import cache
    from habana_tf.cli.machine import cpu_facts

    tf = kept["tf"]
    kept["cpu"] = cpu_facts()
    compiled = cache.stats().counts().compiled
    kept["step"] = _step(tf)
    with tf.device("/HPU:0"):
        kept["results"] = [result.numpy() for result in tf.function(kept["step"])(*_inputs(tf))]
    if cache.stats().counts().compiled == compiled:
        raise RuntimeError("TensorFlow ran a training step under /HPU:0 without a recipe: habana_tf.placement_report() "
                           "of such a program says why")  # fmt: skip
    return {}


def _step(tf: Any) -> Callable[..., Any]:
    def step(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(tf.reduce_logsumexp(tf.tanh(tf.matmul(x, weights)), axis=1))
        return loss, tape.gradient(loss, weights)

    return step


def _inputs(tf: Any) -> list[Any]:
    import numpy as np

    drawn = np.random.default_rng(7)
    with tf.device("/CPU:0"):
        return [tf.constant(drawn.standard_normal(shape), tf.float32) for shape in ((64, 96), (96, 32))]


def _numbers(kept: dict[str, Any]) -> dict[str, Any]:
    """The same step by TensorFlow on the CPU."""
    import numpy as np

    tf = kept["tf"]
    with tf.device("/CPU:0"):
        expected = [result.numpy() for result in kept["step"](*_inputs(tf))]
    off = max(
        float(np.max(np.abs(got - right)) / np.max(np.abs(right)))
        for got, right in zip(kept["results"], expected, strict=True)
    )
    if not off <= _WORST:  # also NaN
        raise RuntimeError(f"a training step on HPU differs from the CPU's by {off:.1e} of its greatest number")
    return {"off": off}


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
