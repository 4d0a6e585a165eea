"""Every layer of Keras on HPU, trained: stock TensorFlow's numbers, nothing on the CPU unless it says why."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.effort import chosen, quickly
from tests.keras_coverage.compare import Ran, check, results
from tests.keras_coverage.layers import NO_LAYER, tables
from tests.keras_coverage.public import left_out
from tests.versions import KERAS_3

FAMILIES = ("layers", "image layers")
CASES = [f"{family}/{name}" for family in FAMILIES for name in tables()[family]]

INVERSE = {"MatrixInverse": "a factorization, in the gradient of a projective transform"}
KERAS_2_ON_CPU = dict.fromkeys([f"image layers/Random{kind}" for kind in ("Rotation", "Translation", "Zoom")], INVERSE)

INVERTED = {"MatrixInverse": "a factorization: where a transform takes each element from is its inverse"}
SOLVED = {**INVERTED, "MatrixSolve": "a factorization: of the equations that four corners give"}
GAMMA = {"StatelessRandomGammaV3": "draws until a number is accepted"}
EQUALIZED = {
    **dict.fromkeys(
        ["Cast", "GatherV2", "Maximum", "Minimum", "Pack", "RealDiv", "Round", "SelectV2", "Unpack"],
        "Keras divides counts of pixels in float64",
    ),
    "Where": "gives as many rows as there are true elements: its shape is known only once it has run",
}
SPECTRA = dict.fromkeys(
    ["AddN", "AddV2", "Complex", "Imag", "IRFFT", "Mul", "RFFT", "Real", "StridedSlice"],
    "complex numbers, which HPU does not have",
)
KERAS_3_ON_CPU = {
    "layers/MelSpectrogram": SPECTRA,
    "image layers/AugMix": {**GAMMA, **INVERTED},
    "image layers/CutMix": GAMMA,
    "image layers/Equalization": EQUALIZED,
    "image layers/MixUp": GAMMA,
    "image layers/RandAugment": {**EQUALIZED, **INVERTED},
    "image layers/RandomPerspective": SOLVED,
    **dict.fromkeys([f"image layers/Random{kind}" for kind in ("Rotation", "Shear", "Translation", "Zoom")], INVERTED),
}
ON_CPU = KERAS_3_ON_CPU if KERAS_3 else KERAS_2_ON_CPU
"""The ops of a case that stay on the CPU, with the reason."""


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest) -> tuple[Ran, Ran]:
    """What HPU and stock TensorFlow make of the cases that are tested."""
    return results(*chosen(request, "case"))


@pytest.mark.parametrize("case", quickly(CASES, 3 if KERAS_3 else 6))
def test_case(ran: tuple[Ran, Ran], case: str) -> None:
    check(case, *ran, ON_CPU.get(case, {}))


def test_nothing_of_keras_is_left_out() -> None:
    """A layer that Keras gains has a case, or a reason why it has none."""
    cases = {name for family in FAMILIES for name in tables()[family]}
    assert left_out(tf.keras.layers, cases) <= NO_LAYER.keys()
    assert not NO_LAYER.keys() & cases
