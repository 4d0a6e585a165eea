"""Keras 2's optimizers trace their update once beside HPU, and nothing else about them changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.child import python
from tests.effort import chosen
from tests.tensorflow.changes.keras2.both_ways import Seen, of_script
from tests.versions import KERAS_3

pytestmark = pytest.mark.skipif(KERAS_3, reason="Keras 3 has optimizers of its own")

COUNTS = {  # how many updates were traced, and for how many variables they stand
    "Adam": (2, 12),
    "momentum": (2, 12),
    "Adadelta": (2, 12),
    "Adagrad": (2, 12),
    "Adamax": (2, 12),
    "AdamW": (2, 12),
    "Ftrl": (2, 12),
    "Lion": (2, 12),
    "RMSprop": (2, 12),
    "SGD": (2, 12),
    "Nadam": (0, 0),  # counts its traces
    "Adafactor": (0, 0),  # is not elementwise
    "amsgrad": (2, 12),
    "nesterov": (2, 12),
    "centered": (2, 12),
    "clipped, averaged": (2, 12),
    "schedule": (2, 12),
    "embedding": (2, 12),  # its own matrix, the seventh, has a sparse gradient
    "settings changed": (2, 12),
    "bf16": (2, 12),
    "fp16, scaled": (2, 12),
    "by hand": (2, 12),  # a function that makes variables is traced twice
    "twice a step": (4, 24),
    "in two parts": (2, 6),
    "a table, densely": (2, 14),
    "strategy": (1, 6),
    "own update": (0, 0),
    "legacy": (0, 0),
}
QUICK = "Adam", "momentum"
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.rest) for name in COUNTS]


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Seen:
    return of_script(Path(__file__).with_name("updates_cases.py"), chosen(request, "name"))


@pytest.mark.parametrize("name", NAMES)
def test_an_update_is_traced_once(cases: Seen, name: str) -> None:
    counted = [(seen["traced"], seen["called"]) for seen in cases[name]]
    assert counted == [COUNTS[name], (0, 0)]


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_of_keras(cases: Seen, name: str) -> None:
    """Losses, weights and slots, to the bit."""
    mine, keras = ({k: seen[k] for k in ("losses", "weights", "slots")} for seen in cases[name])
    assert mine == keras


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_in_as_many_clusters(cases: Seen, name: str) -> None:
    mine, keras = (seen["clusters"] for seen in cases[name])
    assert mine <= keras


def test_an_update_that_cannot_be_called_is_left_to_keras() -> None:
    """Nothing of it is assigned: one step of SGD on sums moves every weight by its gradient times the rate, once."""
    python(
        """
        import numpy as np
        import tensorflow as tf
        import habana_tf
        from habana_tf.tensorflow.changes.keras2 import updates

        habana_tf.load_habana_module()
        called = []

        def fail(self, handles, gradient):
            called.append(gradient)
            raise RuntimeError("it does not work")

        updates._VariableUpdate.values = fail
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_initializer="ones", input_shape=(4,))])
        model.compile(tf.keras.optimizers.SGD(0.5), lambda y, out: tf.reduce_sum(out))
        model.fit(x, np.zeros((3, 1), np.float32), batch_size=3, verbose=0)
        assert called
        kernel, bias = (w.numpy() for w in model.weights)
        np.testing.assert_allclose(kernel, 1 - 0.5 * np.repeat(x.sum(0)[:, None], 2, 1))
        np.testing.assert_allclose(bias, [-1.5, -1.5])
        """,
        imported=True,
    )
