"""Accumulated steps against programs that do accumulate, lowered and costed like any other."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from habana_tf.card.model.parameters import LATEST_FITTED
from habana_tf.card.model.step_time import step_time
from habana_tf.hardware.chips import chip
from tests.child import on_hpu

WIDTH, DEPTH, BATCH = 1024, 4, 512


def _lowered(times: int) -> Any:
    """A perceptron's launches whose gradients of so many batches are summed, and which is updated once by momentum."""
    import habana_tf
    from habana_tf.tensorflow.dry_run.foreseen import foresee
    from habana_tf.tensorflow.dry_run.weightless import without_values

    habana_tf.load_habana_module()
    with without_values():
        weights = [tf.Variable(lambda: tf.zeros((WIDTH, WIDTH))) for _ in range(DEPTH)]
        speeds = [tf.Variable(lambda: tf.zeros((WIDTH, WIDTH))) for _ in range(DEPTH)]

    def step(x: Any) -> None:
        sums: Any = None
        for part in tf.split(x, times):
            with tf.GradientTape() as tape:
                y = part
                for w in weights:
                    y = tf.nn.relu(y @ w)
                loss = tf.reduce_mean(tf.square(y))
            found = tape.gradient(loss, weights)
            sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
        for w, v, g in zip(weights, speeds, sums, strict=True):
            tf.raw_ops.ResourceApplyMomentum(var=w.handle, accum=v.handle, lr=0.1, grad=g, momentum=0.9)

    return foresee(tf.function(step).get_concrete_function(tf.TensorSpec((times * BATCH, WIDTH)))).launches


@on_hpu
def test_as_long_as_a_program_that_accumulates() -> None:
    one, three = _lowered(1), _lowered(3)
    for name in ("gaudi", "gaudi2"):
        step, ours = step_time(chip(name), one), step_time(chip(name), one, accumulate=3)
        assert step.gradient_bytes == DEPTH * WIDTH * WIDTH * 4
        real = step_time(chip(name), three).launches
        assert ours.launches == pytest.approx(real, rel=0.08), name
        assert abs(ours.launches / real - 1) < abs(3 * step.launches / real - 1), "better than three updates"


@on_hpu
def test_an_update_is_what_its_traffic_takes() -> None:
    """Momentum reads weight, speed and gradient and writes two; gradients of 4 MiB come out of SRAM where they can."""
    step = step_time(chip("gaudi2"), _lowered(1))
    each = step.gradient_bytes / chip("gaudi2").hbm_bandwidth
    assert 4 * each <= step.update_seconds <= 6 * each + DEPTH * 2 * LATEST_FITTED.launch
