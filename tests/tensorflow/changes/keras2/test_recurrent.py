"""Keras' recurrent layers train on HPU as on the CPU, with the loops over the sequence in launches."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.child import python
from tests.effort import chosen
from tests.versions import KERAS_3

STEPS = 7
"""Elements of a sequence."""

SCRIPT = """
    import json
    import numpy as np
    import tensorflow as tf

    HPU, STEPS, NAMES = {hpu}, {steps}, {names}
    if HPU:
        import habana_tf
        from habana_tf._native import _bridge
        habana_tf.load_habana_module()
    L = tf.keras.layers
    words, masked = lambda: L.Embedding(30, 8), lambda: L.Embedding(30, 8, mask_zero=True)
    MODELS = dict(
        lstm=lambda: [words(), L.LSTM(6)],
        gru=lambda: [words(), L.GRU(6)],
        rnn=lambda: [words(), L.SimpleRNN(6)],
        masked_lstm=lambda: [masked(), L.LSTM(6)],
        masked_gru=lambda: [masked(), L.GRU(6, return_sequences=True), L.GlobalAveragePooling1D()],
        both_ways=lambda: [masked(), L.Bidirectional(L.LSTM(6, return_sequences=True)), L.GRU(5)],
        unrolled=lambda: [words(), L.LSTM(6, unroll=True)],
        stateful=lambda: [words(), L.LSTM(6, stateful=True, return_sequences=True), L.Flatten()],
        cells=lambda: [words(), L.RNN([L.LSTMCell(6), L.GRUCell(5)])],
        backwards=lambda: [words(), L.GRU(6, go_backwards=True, activation="relu")],
        convlstm=lambda: [words(), L.Reshape((STEPS, 4, 2, 1)), L.ConvLSTM2D(3, 2), L.Flatten()],
    )
    out = {{}}
    x, y = np.random.default_rng(0).integers(0, 30, (32, STEPS)), np.arange(32) % 4
    for name in NAMES:
        build = MODELS[name]
        tf.keras.utils.set_random_seed(5)
        with tf.device("/HPU:0" if HPU else "/CPU:0"):
            model = tf.keras.Sequential([L.Input((STEPS,), batch_size=8), *build(), L.Dense(4)])
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf.keras.optimizers.SGD(0.1), loss)
            losses = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
            weights = [w.tolist() for w in model.get_weights()]
            launches = []
            for n in (8, 24) if HPU else ():
                before = _bridge.counters()["launches"]
                model.fit(x[:n], y[:n], batch_size=8, shuffle=False, verbose=0)
                launches.append(_bridge.counters()["launches"] - before)
            out[name] = dict(losses=losses, weights=weights, launches=launches)
    if HPU:
        counters = _bridge.counters()
        assert counters["optimize_errors"] == counters["interpreted_launches"] == 0, counters
        refused = habana_tf.placement_report().totals
        out["sums of lists on the CPU"] = sum(n for (op, _, cpu), n in refused.items() if op == "AddN" and cpu)
    print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> dict[bool, dict[str, Any]]:
    """Losses of eight steps, weights behind them, and launches of one and of three steps, per model that is tested."""
    names = chosen(request, "name")
    scripts = {hpu: SCRIPT.format(hpu=hpu, steps=STEPS, names=names) for hpu in (True, False)}
    done = {hpu: python(script, imported=True, hpu=hpu, timeout=400) for hpu, script in scripts.items()}
    return {hpu: json.loads(d.stdout.splitlines()[-1]) for hpu, d in done.items()}


LAYERS = {"lstm": 1, "gru": 1, "rnn": 1, "masked_lstm": 1, "masked_gru": 1, "both_ways": 3, "unrolled": 0,
          "stateful": 1, "cells": 1, "backwards": 1, "convlstm": 1}  # fmt: skip
"""Loops per direction."""
QUICK = ("lstm", "both_ways")
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.rest) for name in LAYERS]


@pytest.mark.parametrize("name", NAMES)
def test_trains_as_on_the_cpu(runs: dict[bool, dict[str, Any]], name: str) -> None:
    ours, stock = runs[True][name], runs[False][name]
    np.testing.assert_allclose(ours["losses"], stock["losses"], rtol=1e-5)
    for a, b in zip(ours["weights"], stock["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("name", NAMES)
def test_a_loop_is_a_launch(runs: dict[bool, dict[str, Any]], name: str) -> None:
    """A step has a handful of launches, however long the sequence."""
    one, three = runs[True][name]["launches"]
    assert (three - one) // 2 <= 10 + 4 * LAYERS[name]


@pytest.mark.skipif(KERAS_3, reason="Keras 3 has no functions between its layers and the step")
@pytest.mark.parametrize("name", [name for name in ("lstm", "both_ways") if name in QUICK])
def test_layers_are_part_of_the_step(runs: dict[bool, dict[str, Any]], name: str) -> None:
    """Not functions that it calls, each with launches of its own (`keras2/recurrent.py`): one, and what `fit` does
    beside its steps."""
    one, three = runs[True][name]["launches"]
    assert (three - one) // 2 <= 2


def test_no_list_is_summed_on_the_cpu(runs: dict[bool, dict[str, Any]]) -> None:
    assert runs[True]["sums of lists on the CPU"] == 0
