"""Every optimizer, schedule, activation, loss and metric of Keras on HPU: stock TensorFlow's numbers, all on HPU."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.effort import chosen, quickly
from tests.keras_coverage.cases import NO_CASE, tables
from tests.keras_coverage.compare import Ran, check, results
from tests.keras_coverage.public import functions, left_out
from tests.versions import KERAS_3

FAMILIES = ("optimizers", "schedules", "activations", "losses", "metrics")
CASES = [f"{family}/{name}" for family in FAMILIES for name in tables()[family]]

WHERE = "gives as many rows as there are true elements: its shape is known only once it has run"
UNIQUE = {"Unique": "gives as many numbers as there are distinct ones (here: rows of a table that have a gradient)"}
THRESHOLDS = {"Where": WHERE}
THRESHOLDS_METRICS = [
    f"metrics/{kind}" for kind in ("PrecisionAtRecall", "RecallAtPrecision", "SensitivityAtSpecificity",
                                   "SpecificityAtSensitivity")
]  # fmt: skip
KERAS_2_ON_CPU = {
    **{f"optimizers/{name}": UNIQUE for name in tables()["optimizers"] if name != "legacy SGD"},  # adds row by row
    "metrics/R2Score": {"AssignAddVariableOp": "counts in an int32 variable, which TensorFlow keeps on the host"},
    **dict.fromkeys(THRESHOLDS_METRICS, THRESHOLDS),
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


ASSERTED = 3
"""The host checks the labels of a confusion matrix before work goes on."""
SPARSE = 5
"""Keras 3 finds the rows of a table that have a gradient with Where, on the host, once for each slot."""
LAUNCHES = {
    **dict.fromkeys(THRESHOLDS_METRICS, 2),
    **dict.fromkeys([f"metrics/{kind}IoU" for kind in ("", "Binary", "Mean", "OneHot", "OneHotMean")], ASSERTED),
    "schedules/PiecewiseConstantDecay": 2,  # the host checks that one piece applies
    **(dict.fromkeys(KERAS_3_ON_CPU, SPARSE) if KERAS_3 else {}),
    **dict.fromkeys(["losses/ctc", "losses/CTC"], None),  # loops, a launch in every iteration
}
"""How many launches a step takes at most, where that is not one; None: not bounded."""


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest) -> tuple[Ran, Ran]:
    """What HPU and stock TensorFlow make of the cases that are tested."""
    return results(*chosen(request, "case"))


@pytest.mark.parametrize("case", quickly(CASES, 3 if KERAS_3 else 6))
def test_case(ran: tuple[Ran, Ran], case: str) -> None:
    ours, stock = ran
    check(case, ours, stock, ON_CPU.get(case, {}))
    most = LAUNCHES.get(case, 1)
    assert most is None or ours.said[case]["launches"] <= most


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_of_keras_is_left_out(family: str) -> None:
    """What Keras gains has a case, or a reason why it has none."""
    module = tf.keras.optimizers.schedules if family == "schedules" else getattr(tf.keras, family)
    cases = {*tables()[family], *functions(tf.keras.losses)}  # those that are metrics too
    assert left_out(module, cases) <= NO_CASE.keys()
    assert not NO_CASE.keys() & tables()[family].keys()
