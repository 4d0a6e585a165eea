"""Every layer of Keras on HPU, trained: stock TensorFlow's numbers, nothing on the CPU."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.keras_coverage.compare import check, results
from tests.keras_coverage.layers import NO_LAYER, tables
from tests.keras_coverage.public import left_out
from tests.versions import KERAS_3

pytestmark = pytest.mark.skipif(KERAS_3, reason="what Keras 3's layers need on the CPU is not in the table below")

FAMILIES = ("layers", "image layers")
CASES = [f"{family}/{name}" for family in FAMILIES for name in tables()[family]]

INVERSE = {"MatrixInverse": "a factorization, in the gradient of a projective transform"}
ON_CPU = dict.fromkeys([f"image layers/Random{kind}" for kind in ("Rotation", "Translation", "Zoom")], INVERSE)
"""The ops of a case that stay on the CPU, with the reason."""


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    check(case, *results(*FAMILIES), ON_CPU.get(case, {}))


def test_nothing_of_keras_is_left_out() -> None:
    """A layer that Keras gains has a case, or a reason why it has none."""
    cases = {name for family in FAMILIES for name in tables()[family]}
    assert left_out(tf.keras.layers, cases) <= NO_LAYER.keys()
    assert not NO_LAYER.keys() & cases
