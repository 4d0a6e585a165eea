"""Input pipelines of known speed, by a clock that only they move: nothing here waits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.card.model.host import UNKNOWN, Host
from habana_tf.card.prediction.foreseen import Foreseen, PredictionError
from habana_tf.tensorflow.dry_run import input_rate as measured
from habana_tf.tensorflow.dry_run.input_rate import fed_by, input_rate
from tests.child import on_hpu


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Batches:
    """So many batches of arrays, each after `sleep` seconds; the first one of a pass after `opening` more."""

    def __init__(self, clock: Clock, count: int, sleep: float, opening: float = 0.0) -> None:
        self.clock, self.count, self.sleep, self.opening = clock, count, sleep, opening
        self.given = 0

    def __iter__(self) -> Iterator[Any]:
        self.clock.now += self.opening
        for _ in range(self.count):
            self.clock.now += self.sleep
            self.given += 1
            yield {"image": np.zeros((32, 4, 4)), "label": np.zeros(32)}


def test_examples_of_a_pipeline_that_sleeps() -> None:
    clock = Clock()
    rate, source = input_rate(Batches(clock, 10**6, 0.02), 3, clock=clock)
    assert rate == pytest.approx(32 / 0.02) and source.startswith("measured here: ")


def test_it_ends_in_time_and_the_warm_up_does_not_count() -> None:
    clock = Clock()
    data = Batches(clock, 10**6, 0.01, opening=2.0)
    rate, _ = input_rate(data, 3, seconds=4.0, clock=clock)
    assert rate == pytest.approx(3200) and 199 <= data.given <= 201


def test_what_ends_is_begun_anew_and_that_counts() -> None:
    """Two batches in 0.3 s, of which 0.1 are for opening."""
    clock = Clock()
    data = Batches(clock, 2, 0.1, opening=0.1)
    rate, _ = input_rate(data, 3, seconds=30.0, clock=clock)
    assert rate == pytest.approx(2 * 32 / 0.3, rel=0.02) and data.given > 100


def test_an_iterator_stops_the_count() -> None:
    clock = Clock()
    rate, _ = input_rate(iter(Batches(clock, 7, 0.02, opening=1.0)), 3, clock=clock)
    assert rate == pytest.approx(1600)


def test_too_little_to_measure_is_said() -> None:
    clock = Clock()
    for dataset in (iter(Batches(clock, 1, 0.1)), []):
        with pytest.raises(PredictionError, match="batches and ended"):
            input_rate(dataset, 3, clock=clock)
    with pytest.raises(PredictionError, match="gives str without an array"):
        input_rate(["a", "b"], 3, clock=clock)


def test_single_examples_count_as_one() -> None:
    clock = Clock()
    assert input_rate(Batches(clock, 10**6, 0.5), 4, clock=clock)[0] == pytest.approx(2), "no batches"


def test_datasets_of_tensorflow() -> None:
    """A twentieth of a second goes by from one batch to the next."""
    readings = itertools.count()
    data = tf.data.Dataset.from_tensor_slices((np.zeros((40, 2), "f4"), np.zeros(40, "i4"))).batch(4)
    rate, _ = input_rate(data, 2, clock=lambda: next(readings) / 20)
    assert rate == pytest.approx(80)


def test_one_source_of_the_rate_only(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = (tf.TensorSpec(()), tf.TensorSpec((32, 4, 4)))
    assert fed_by(None, None, specs) is UNKNOWN and fed_by(Host(5), None, specs) == Host(5)
    ranks = []
    monkeypatch.setattr(measured, "input_rate", lambda _, rank: ranks.append(rank) or (77.0, "measured"))
    assert fed_by(Host(loaders=3), [], specs) == Host(77.0, loaders=3, source="measured") and ranks == [3]
    with pytest.raises(PredictionError, match="give one of them"):
        fed_by(Host(5), [], specs)
    with pytest.raises(PredictionError, match="3 loaders of unknown speed"):
        fed_by(Host(loaders=3), None, specs)


@pytest.mark.rest
@on_hpu
def test_a_published_row_that_waits_for_its_loader_is_told_from_one_that_does_not() -> None:
    """ViT-B/16 by Optimum Habana 1.11, one loader for each card: eight Gaudi2s reach 917 images/s each, so that is what
    a loader gives. One Gaudi2 reached 932 (batches of 96), one Gaudi 359.6 (64); lowered once, for 64."""
    from habana_tf.dry_run.predict import costed
    from tests.card.model.fidelity import launches

    found = Foreseen(list(launches("ViT-B/16-224", 64)))
    waits, computes = (costed(found, 64, chip, 1, "bf16", host=Host(917, loaders=1)) for chip in ("gaudi2", "gaudi"))
    assert waits.input_bound and waits.examples_per_second == pytest.approx(932, rel=0.03)
    assert waits.limits.pipelines_needed == 2 and waits.limits.fed_examples_per_second > 1.2 * 932
    assert not computes.input_bound and computes.examples_per_second == pytest.approx(359.6, rel=0.2)


@on_hpu
def test_a_prediction_with_a_dataset_says_whether_it_is_bound_by_it() -> None:
    from unittest import mock

    import habana_tf

    clock = Clock()

    def f(x: Any) -> Any:
        return tf.matmul(x, tf.transpose(x))

    with mock.patch.object(measured.time, "perf_counter", clock):
        slow = habana_tf.predict(f, (32, 64), dataset=Batches(clock, 10**6, 1.0))
        (fast,) = habana_tf.compare(f, (32, 64), chips=["gaudi"], dataset=Batches(clock, 10**9, 1e-4))
    assert slow.input_bound and slow.examples_per_second == 32 and "measured here" in str(slow)
    assert fast.bound == "Python" and not fast.input_bound
    assert not habana_tf.predict(f, (32, 64)).input_bound
