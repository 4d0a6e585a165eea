"""Readings of the runtime's counters, and what is between two of them."""

from __future__ import annotations

import pytest

from habana_tf.card.clock.counted import LaunchCounts, Launches
from tests.child import on_hpu

SECOND = 10**9


def reading(at: int, *programs: Launches, copies: int = 0, sorts: int = 0) -> LaunchCounts:
    cpu_ops = {"Sort": (sorts, 0.5 * sorts)} if sorts else {}
    return LaunchCounts(0, at, {p.number: p for p in programs}, {"host_copies": copies}, cpu_ops)


def test_the_difference_of_two_readings() -> None:
    before = reading(5 * SECOND, Launches(1, "a", 3, 0.3, 4 * SECOND), Launches(2, "b", 1, 1.0, SECOND), copies=7)
    after = reading(
        20 * SECOND, Launches(1, "a", 5, 0.7, 9 * SECOND), Launches(2, "b", 1, 1.0, SECOND),
        Launches(3, "c", 4, 2.0, 12 * SECOND), copies=9, sorts=2,
    )  # fmt: skip
    found = after.after(before)
    assert {n: (p.name, p.launches) for n, p in found.programs.items()} == {1: ("a", 2), 3: ("c", 4)}
    assert found.programs[1].seconds == pytest.approx(0.4) and found.launches == 6
    assert found.counters == {"host_copies": 2} and found.cpu_ops == {"Sort": (2, 1.0)}
    assert (found.begin, found.at) == (5 * SECOND, 20 * SECOND)
    assert found.window == pytest.approx(7.0), "to the end of the last launch, not to the reading"
    assert found.launched_seconds == pytest.approx(2.4)


def test_nothing_launched_is_no_window() -> None:
    assert reading(SECOND).after(reading(SECOND)).window == 0


def test_a_program_that_is_told_apart_no_more_is_not_counted_again() -> None:
    mixed = Launches(0, "", 10, 2.0, SECOND)
    before = reading(5 * SECOND, mixed, Launches(1, "a", 3, 0.3, 4 * SECOND))
    after = reading(9 * SECOND, Launches(0, "", 15, 3.0, 8 * SECOND), Launches(2, "b", 1, 0.1, 7 * SECOND))
    found = after.after(before)
    assert {n: p.launches for n, p in found.programs.items()} == {0: 2, 2: 1}
    assert found.programs[0].seconds == pytest.approx(0.7)
    first = after.after(reading(5 * SECOND, Launches(1, "a", 3, 0.3, 4 * SECOND)))
    assert first.programs[0].launches == 12


@on_hpu
def test_launches_are_counted_per_program_and_outlive_it() -> None:
    import gc

    import tensorflow as tf

    from habana_tf._native import _bridge
    from habana_tf.card.clock import counted

    before, all_before = counted.now(), _bridge.counters()["launches"]

    @tf.function
    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x) * 2.0 + 1.0

    for n in (3, 3, 3, 4, 4):
        f(tf.ones(n))
    mine = counted.now().after(before)
    counts = sorted(p.launches for p in mine.programs.values() if p.name.startswith("cluster"))
    assert counts == [2, 3] or counts == [5], "one program per shape, or one for all"
    assert mine.launches == _bridge.counters()["launches"] - all_before
    del f
    gc.collect()
    again = counted.now().after(before)
    assert sum(p.launches for p in again.programs.values() if p.name.startswith("cluster")) == 5


@on_hpu
def test_copies_and_ops_on_the_cpu_are_counted() -> None:
    import numpy as np
    import tensorflow as tf

    from habana_tf.card.clock import counted

    before = counted.now()
    x = tf.constant(np.arange(1 << 18, dtype=np.float32)) + 0.0
    assert x.numpy()[5] == 5
    tf.unique(tf.range(8))
    found = counted.now().after(before)
    assert found.counters["host_copy_bytes"] >= 2 * (4 << 18)
    assert found.counters["host_copies"] >= 2 and found.counters["host_copy_nanoseconds"] > 0
