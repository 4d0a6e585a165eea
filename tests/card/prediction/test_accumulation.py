"""Accumulated steps against programs that do accumulate, lowered and costed like any other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tensorflow as tf

from habana_tf.card.model.step_time import StepTime, step_time
from habana_tf.card.prediction.accumulation import Update, accumulated, update
from habana_tf.hardware.chips import chip
from tests.card.prediction.test_report import prediction
from tests.child import on_hpu

WIDTH, DEPTH, BATCH = 1024, 4, 512


def _lowered(times: int) -> Any:
    """A perceptron's launches whose gradients of so many batches are summed, and which is updated once by momentum."""
    import habana_tf
    from habana_tf.dry_run.foreseen import foresee
    from habana_tf.dry_run.weightless import without_values

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
        step = step_time(chip(name), one)
        found = update(step, one)
        assert found.gradient_bytes == DEPTH * WIDTH * WIDTH * 4 and found.added_bytes == 2 * found.gradient_bytes
        real = step_time(chip(name), three).launches
        ours = accumulated(step, found, 3).launches
        assert ours == pytest.approx(real, rel=0.06), name
        assert abs(ours / real - 1) < abs(3 * step.launches / real - 1), "better than three steps with an update each"


@on_hpu
def test_an_update_is_what_its_traffic_takes() -> None:
    """Momentum reads weight and speed and writes both; gradients of 4 MiB come out of SRAM."""
    launches = _lowered(1)
    step = step_time(chip("gaudi2"), launches)
    found = update(step, launches)
    traffic = 4 * found.gradient_bytes / chip("gaudi2").hbm_bandwidth
    whole = sum(u.seconds for u in step.units)
    assert found.seconds == pytest.approx((traffic + found.pause) * step.launches / whole, rel=0.02)
    assert 0 < found.seconds < step.launches / 2


def step() -> StepTime:
    """100 ms of launches, 10 of network of which 4 are alone, 2 of waiting, 30 of copies."""
    return replace(prediction(copies=0.03).step)


def test_the_network_works_once_and_alone() -> None:
    """Of 100 ms 8 are the update; adding moves what HBM moves in 2 ms, with 0.5 ms of pauses."""
    moved = chip("gaudi2").hbm_bandwidth // 500
    found = Update(0.008, 0.0005, moved // 2, moved)
    assert accumulated(step(), found, 1) == step()
    four = accumulated(step(), found, 4)
    assert four.launches == pytest.approx(4 * (0.1 - 0.008) + 3 * 0.0025 + 0.008)
    assert four.network_alone == four.network == 0.010
    assert four.waiting == pytest.approx(0.002 * four.launches / 0.1) and four.copies == pytest.approx(0.12)
    assert four.hbm_bytes - step().hbm_bytes == found.gradient_bytes
