"""The clock of the card: sums by hand, what the host did between launches, several chips and cards."""

from __future__ import annotations

import json
import math
from typing import Any

import tensorflow as tf

from tests.child import on_hpu


@tf.function
def step(x: Any) -> Any:
    return tf.nn.softmax(tf.matmul(x, x)) + 1.0


def clusters(report: Any) -> list[Any]:
    return [r for r in report.recipes if r.name.startswith("cluster")]


@on_hpu
def test_launches_times_their_predicted_time() -> None:
    import habana_tf

    before = habana_tf.card_time_report()
    for n in (128, 128, 128, 256):
        step(tf.ones((n, n)))
    report = habana_tf.card_time_report(since=before)
    mine = clusters(report)
    assert sorted(r.launches for r in mine) == [1, 3]
    for r in mine:
        (shape,) = {*r.inputs}
        told = habana_tf.predict(step, shape, precision="fp32").step.launches
        assert math.isclose(r.each, told) and math.isclose(r.seconds, r.launches * told)
        assert 0 < r.share < 1 and r.bound in ("MME", "TPC", "memory", "launch") and not r.why
    assert math.isclose(report.launch_seconds, sum(r.launches * (r.each or 0) for r in report.recipes))
    assert math.isclose(sum(r.share for r in report.recipes), 1.0)
    assert report.launches == sum(r.launches for r in report.recipes) and report.seconds >= report.launch_seconds
    assert clusters(habana_tf.card_time_report(since=report)) == []


@on_hpu
def test_chips_and_cards() -> None:
    import habana_tf
    from habana_tf.card.clock import counted, report
    from habana_tf.card.model.network import slowest
    from habana_tf.card.model.parameters import FITTED
    from habana_tf.hardware.chips import chip

    before = counted.now()
    step(tf.ones((512, 512)))
    mine = counted.now().after(before)
    slow, fast = (report.of(mine, chip(name), 1) for name in ("gaudi", "gaudi3"))
    assert clusters(slow)[0].each > clusters(fast)[0].each and (slow.chip, fast.chip) == ("gaudi", "gaudi3")
    eight = report.of(mine, chip("gaudi"), 8)
    assert slow.waiting == slow.sums == 0
    assert math.isclose(eight.waiting, slowest(8) * FITTED.skew * eight.launch_seconds) and eight.seconds > slow.seconds
    for wrong in ({"chip": "tpu"}, {"cards": 0}):
        try:
            habana_tf.card_time_report(**wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


@on_hpu
def test_gradients_of_several_cards_are_summed() -> None:
    """The update of a dense layer: its gradient crosses the network, behind the backward pass at most whole."""
    import numpy as np

    from habana_tf.card.clock import counted, report
    from habana_tf.card.model.network import sum_seconds
    from habana_tf.card.model.parameters import FITTED
    from habana_tf.hardware.boxes import box
    from habana_tf.hardware.chips import chip

    model = tf.keras.Sequential([tf.keras.layers.Input((256,)), tf.keras.layers.Dense(128, use_bias=False)])
    model.compile("sgd", "mse")
    x, y = np.zeros((64, 256), "f4"), np.zeros((64, 128), "f4")
    model.fit(x, y, batch_size=32, verbose=0)
    before = counted.now()
    model.fit(x, y, batch_size=32, verbose=0)
    mine = counted.now().after(before)
    found = report.of(mine, chip("gaudi2"), 8)
    whole = sum_seconds(chip("gaudi2"), box(chip("gaudi2")), 256 * 128 * 4, 8, FITTED.launch)
    assert 0 < found.sums <= 2 * 1.01 * whole
    assert report.of(mine, chip("gaudi2"), 1).sums == 0


@on_hpu
def test_what_the_host_does_between_launches_is_measured_and_named() -> None:
    import time

    import habana_tf
    from habana_tf.card.clock.report import COPIES, REST

    begin = time.perf_counter()  # what the host does is measured from the launch before the report on
    step(tf.ones((64, 64)))
    before = habana_tf.card_time_report()
    step(tf.ones((64, 64))).numpy()
    time.sleep(0.2)
    step(tf.ones((64, 64)))
    took = time.perf_counter() - begin
    report = habana_tf.card_time_report(since=before)
    named = {b.name: b for b in report.between}
    assert 0.2 <= named[REST].seconds <= took + 0.05 and named[REST].count is None
    assert named[COPIES].count >= 1
    on_host = sum(r.host_seconds for r in report.recipes)
    assert math.isclose(report.window, on_host + report.between_seconds, rel_tol=0.05)
    assert math.isclose(report.clock_seconds, report.seconds + report.between_seconds)
    time.sleep(0.3)
    assert habana_tf.card_time_report(since=before).window == report.window, "waiting after the last launch is none"


@on_hpu
def test_ops_on_the_cpu_are_named() -> None:
    import habana_tf

    @tf.function
    def f(x: Any) -> Any:
        y, _ = tf.unique(tf.cast(x * 2.0, tf.int32))
        return tf.reduce_sum(y)

    f(tf.ones(16))
    report = habana_tf.card_time_report()
    assert any(op == "Unique" for op, _ in report.on_cpu) and "Unique" in str(report)


@on_hpu
def test_for_people_for_programs_and_in_a_notebook() -> None:
    import habana_tf

    before = habana_tf.card_time_report()
    step(tf.ones((128, 128)))
    report = habana_tf.card_time_report(chip="gaudi3", cards=8, since=before)
    data = json.loads(report.to_json())
    assert data["seconds"] == report.seconds and data["recipes"][0]["launches"] >= 1 and data["cards"] == 8
    (name,) = [r.name for r in clusters(report)]
    shown = str(report)
    assert "8 x gaudi3" in shown and name in shown and "128x128" in shown and "measured here" in shown
    assert name in report._repr_html_()


@on_hpu
def test_reset_counts_anew() -> None:
    import habana_tf
    from habana_tf.card.clock import report

    step(tf.ones((32, 32)))
    report.reset()
    assert habana_tf.card_time_report().launches == 0
    step(tf.ones((32, 32)))
    assert [r.launches for r in clusters(habana_tf.card_time_report())] == [1]


def test_without_hpu_it_says_what_to_do() -> None:
    import pytest

    import habana_tf

    with pytest.raises(RuntimeError, match="load_habana_module"):
        habana_tf.card_time_report()
