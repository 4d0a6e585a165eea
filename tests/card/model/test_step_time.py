"""A step's time as a sum of its parts, by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import tensorflow as tf

from habana_tf.card.model.cluster_time import together
from habana_tf.card.model.network import slowest, sum_seconds
from habana_tf.card.model.parameters import FITTED, LATEST_FITTED
from habana_tf.card.model.step_time import StepTime, step_time
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from tests.card.model.test_kernels import launched
from tests.child import on_hpu

GAUDI = chip("gaudi")


def step(**changed: Any) -> StepTime:
    """100 ms of launches, 3 of network, 2 of waiting, 50 of copies."""
    made = StepTime(GAUDI, 8, box(GAUDI), [], 0.100, 0.010, 0.003, 0.002, 0.050, {"weights": 7, "inputs": 5})
    return replace(made, **changed)


def test_seconds_are_the_card_s_or_the_copies() -> None:
    assert step().seconds == pytest.approx(0.105)
    assert step(copies=0.2).seconds == pytest.approx(0.2), "the host feeds the next step meanwhile"
    assert step().hbm_bytes == 12 and step().units == []


@on_hpu
def test_launches_follow_each_other() -> None:
    one = launched(lambda x, y: tf.matmul(x, y), (512, 512), (512, 512))
    two = launched(lambda x: tf.nn.softmax(x) * 2.0, (512, 512))
    alone = [step_time(GAUDI, [each]).launches for each in (one, two)]
    both = step_time(GAUDI, [one, two], copied=GAUDI.pcie_bandwidth // 1000)
    assert math.isclose(both.launches, sum(alone)) and len(both.clusters) == 2
    assert math.isclose(both.copies, 1e-3, rel_tol=1e-6) and both.seconds == max(both.launches, both.copies)
    assert both.waiting == both.network == both.network_alone == 0, "one card"
    assert step_time(GAUDI, [one, two], cards=16).waiting == pytest.approx(slowest(16) * FITTED.skew * both.launches)


@on_hpu
def test_inputs_of_all_launches_count_and_workspaces_take_turns() -> None:
    one = launched(lambda x: x / tf.reduce_sum(x, 0), (256, 1024))
    alone, twice = step_time(GAUDI, [one]).memory, step_time(GAUDI, [one, one]).memory
    assert twice["inputs"] == 2 * alone["inputs"] == 2 << 20
    assert twice["workspace"] == alone["workspace"]


@on_hpu
def test_each_gradient_crosses_the_network_once() -> None:
    """A dense layer under momentum: eight cards sum ROWS x COLUMNS numbers, and no more than that is waited for."""
    from habana_tf.tensorflow.dry_run.foreseen import foresee
    from tests.card.model.test_roles import COLUMNS, ROWS, gradient, variables

    w, m = variables()

    def update(x: Any) -> None:
        tf.raw_ops.ResourceApplyKerasMomentum(var=w.handle, accum=m.handle, lr=0.1, grad=gradient(x, w), momentum=0.9)

    concrete = tf.function(update).get_concrete_function(tf.TensorSpec((16, ROWS)))
    found = step_time(GAUDI, foresee(concrete).launches, cards=8)
    whole = sum_seconds(GAUDI, box(GAUDI), 4 * ROWS * COLUMNS, 8, FITTED.launch)
    assert math.isclose(found.network, whole) and 0 < found.network_alone <= whole * (1 + 1e-9)
    assert found.memory["weights"] == found.memory["optimizer"] == 4 * ROWS * COLUMNS


@on_hpu
def test_a_step_of_micro_batches_updates_once_and_sums_gradients_after_each() -> None:
    from habana_tf.tensorflow.dry_run.foreseen import foresee
    from tests.card.model.test_roles import COLUMNS, ROWS, gradient, variables

    w, m = variables()

    def update(x: Any) -> None:
        tf.raw_ops.ResourceApplyKerasMomentum(var=w.handle, accum=m.handle, lr=0.1, grad=gradient(x, w), momentum=0.9)

    concrete = tf.function(update).get_concrete_function(tf.TensorSpec((16, ROWS)))
    launched, size = foresee(concrete).launches, 4 * ROWS * COLUMNS
    one, four = step_time(GAUDI, launched), step_time(GAUDI, launched, accumulate=4)
    once = together([u for u in one.units if not u.unit.product and len(u.unit.loads) > 1], LATEST_FITTED)
    added = 4 * 3 * size / GAUDI.hbm_bandwidth
    assert four.launches == pytest.approx(4 * one.launches - 3 * once + added), "three updates less"
    assert four.memory["gradients"] == one.memory["gradients"] + size
    eight = step_time(GAUDI, launched, cards=8, accumulate=4)
    assert eight.network_alone == pytest.approx(eight.network), "the sums begin when the last gradient is there"
