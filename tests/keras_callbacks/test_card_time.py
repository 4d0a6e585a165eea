"""The Keras callback: examples counted whatever the batches, validation left out, numbers that follow from reports."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from tests.child import on_hpu

KEYS = {"card_examples_per_second", "examples_per_second"}


def model(compiled: bool = True) -> tf.keras.Model:
    out = tf.keras.Sequential([tf.keras.layers.Input((64,)), tf.keras.layers.Dense(32)])
    if compiled:
        out.compile("sgd", "mse")
    return out


X, Y = np.zeros((70, 64), "f4"), np.zeros((70, 32), "f4")


@on_hpu
def test_examples_per_second_follow_from_launches_and_predicted_times() -> None:
    """70 examples in batches of 32: the last has 6. The host's clock is ours: two seconds pass in an epoch."""
    import itertools

    import habana_tf
    from habana_tf.keras_callbacks import card_time

    trained = model()
    trained.fit(X, Y, batch_size=32, verbose=0)
    before = habana_tf.card_time_report()
    ticks = itertools.count(step=2.0)
    card_time.time = SimpleNamespace(perf_counter=lambda: next(ticks))
    logs = trained.fit(X, Y, batch_size=32, verbose=0, callbacks=[habana_tf.CardTimeCallback()]).history
    card_time.time = time
    report = habana_tf.card_time_report(since=before)
    assert set(logs) >= KEYS | {"loss"}
    (card,), (host,) = logs["card_examples_per_second"], logs["examples_per_second"]
    assert host == 70 / 2.0
    # Keras launches a few ops before the epoch begins, which are not of the epoch
    assert 0.8 < 70 / report.seconds / card <= 1.0


@on_hpu
def test_validation_counts_for_neither() -> None:
    import habana_tf

    trained = model()
    callback = habana_tf.CardTimeCallback()
    trained.fit(X, Y, batch_size=32, verbose=0, validation_data=(X, Y), epochs=2)
    plain = trained.fit(X, Y, batch_size=35, verbose=0, callbacks=[callback]).history
    validated = trained.fit(X, Y, batch_size=35, verbose=0, callbacks=[callback], validation_data=(X, Y)).history
    first, second = plain["card_examples_per_second"][0], validated["card_examples_per_second"][0]
    assert math.isclose(first, second, rel_tol=0.15)


@on_hpu
def test_more_cards_and_another_chip() -> None:
    import habana_tf

    trained = tf.keras.Sequential([tf.keras.layers.Input((1024,)), tf.keras.layers.Dense(1024)])
    trained.compile("sgd", "mse")
    x = y = np.zeros((64, 1024), "f4")
    speeds = []
    for chip, cards in (("gaudi", 1), ("gaudi3", 1), ("gaudi3", 8)):
        callback = habana_tf.CardTimeCallback(chip=chip, cards=cards)
        logs = trained.fit(x, y, batch_size=32, verbose=0, callbacks=[callback]).history
        speeds.append(logs["card_examples_per_second"][0])
    assert speeds[0] < speeds[1] and speeds[1] < speeds[2] <= 8 * speeds[1] * 1.01


@on_hpu
def test_a_train_step_of_one_s_own_needs_the_batch() -> None:
    import habana_tf

    class Own(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(32)

        def call(self, x: Any, training: bool = False) -> Any:
            return self.dense(x)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x) - y))
            weights = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"loss": loss}

    trained = Own()
    trained.compile("sgd")
    x, y = X[:64], Y[:64]
    unknown = trained.fit(x, y, batch_size=32, verbose=0, callbacks=[habana_tf.CardTimeCallback()]).history
    assert not KEYS & set(unknown)
    known = trained.fit(x, y, batch_size=32, verbose=0, callbacks=[habana_tf.CardTimeCallback(batch_size=32)]).history
    assert set(known) >= KEYS and known["card_examples_per_second"][0] > 0


@on_hpu
def test_errors_say_what_is_allowed() -> None:
    import habana_tf

    for wrong in ({"cards": 0}, {"batch_size": 0}, {"chip": "tpu"}):
        try:
            habana_tf.CardTimeCallback(**wrong)
        except ValueError as error:
            assert "use" in str(error), error
        else:
            raise AssertionError(wrong)
