"""Every optimizer, schedule, activation, loss and metric of Keras on HPU: stock TensorFlow's numbers, all on HPU."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.keras_coverage.cases import NO_CASE, tables
from tests.keras_coverage.compare import check, results
from tests.keras_coverage.public import functions, left_out
from tests.versions import KERAS_3

FAMILIES = ("optimizers", "schedules", "activations", "losses", "metrics")
CASES = [f"{family}/{name}" for family in FAMILIES for name in tables()[family]]

WHERE = "gives as many rows as there are true elements: its shape is known only once it has run"
UNIQUE = {"Unique": "gives as many numbers as there are distinct ones (here: rows of a table that have a gradient)"}
THRESHOLDS = {"Where": WHERE, "Size": "counts what Where gave"}
KERAS_2_ON_CPU = {
    **{f"optimizers/{name}": UNIQUE for name in tables()["optimizers"] if name != "legacy SGD"},  # adds row by row
    "metrics/R2Score": {"AssignAddVariableOp": "counts in an int32 variable, which TensorFlow keeps on the host"},
    "metrics/PrecisionAtRecall": THRESHOLDS,
    "metrics/RecallAtPrecision": THRESHOLDS,
    "metrics/SensitivityAtSpecificity": THRESHOLDS,
    "metrics/SpecificityAtSensitivity": THRESHOLDS,
}
ROWS = {"Where": f"{WHERE} (here: which rows of a table have a gradient)"}
KERAS_3_ON_CPU = {
    "optimizers/Adadelta": ROWS,
    "optimizers/Adafactor": ROWS,
    "optimizers/Adagrad": ROWS,
    "optimizers/RMSprop": ROWS,
    "optimizers/RMSprop centered": ROWS,
    "optimizers/ScheduleFreeAdamW": ROWS,
}
ON_CPU = KERAS_3_ON_CPU if KERAS_3 else KERAS_2_ON_CPU
"""The ops of a case that stay on the CPU, with the reason."""


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    check(case, *results(*FAMILIES), ON_CPU.get(case, {}))


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_of_keras_is_left_out(family: str) -> None:
    """What Keras gains has a case, or a reason why it has none."""
    module = tf.keras.optimizers.schedules if family == "schedules" else getattr(tf.keras, family)
    cases = {*tables()[family], *functions(tf.keras.losses)}  # those that are metrics too
    assert left_out(module, cases) <= NO_CASE.keys()
    assert not NO_CASE.keys() & tables()[family].keys()
