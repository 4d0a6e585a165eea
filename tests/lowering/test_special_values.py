"""NaN, infinities, denormals and signed zeros in every row of the op table: what HPU makes of them, beside what stock
TensorFlow's CPU kernels make of them. Where the two differ, docs/special-values.md says so, and why; its table is what
this test allows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tensorflow as tf
from special_calls import CALLS
from special_values import EXTREMES, KINDS, data_types, differences, examples
from tensorflow.python.framework import op_def_registry

from habana_tf.lowering.table import rows
from tests.effort import some

PAGE = Path(__file__).parents[2] / "docs" / "special-values.md"

UNTRIED = {
    **dict.fromkeys(
        ("BatchMatrixDiag", "BatchMatrixDiagPart", "BatchMatrixSetDiag"), "TensorFlow's kernels refuse them by now"
    ),
    "AdjustHue": "TensorFlow's kernel never returns for a hue of infinity",
    "AccumulateNV2": "TensorFlow has no kernel for it: it becomes AddN, which is tried",
    **dict.fromkeys(
        (
            "Multinomial",
            "StatelessMultinomial",
            "StatefulUniform",
            "StatefulStandardNormalV2",
            "StatefulTruncatedNormal",
        ),
        "their numbers are drawn, and tests/lowering/test_random.py has their arguments",
    ),
    "SegmentSumV2": "TensorFlow's CPU has no kernel for it",
    **dict.fromkeys(
        (
            "CropAndResize",
            "CropAndResizeGradBoxes",
            "CropAndResizeGradImage",
            "ImageProjectiveTransformV2",
            "ImageProjectiveTransformV3",
        ),
        "their floats are positions too, and TensorFlow reads images at such positions beside them",
    ),
}
"""Rows that take floats and are not tried, each with the reason."""


def documented() -> dict[str, set[str]]:
    """Kinds of values in which an op may differ, by op: the table of the page."""
    out: dict[str, set[str]] = {}
    for ops, kinds, _ in re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.M):
        for op in re.findall(r"`(\w+)`", ops):
            out[op] = set(kinds.split(", "))
    return out


def tried() -> list[str]:
    """The rows that take floats, or numbers of a type that may be one, in this release of TensorFlow."""
    known = [row for row in rows().values() if op_def_registry.get(row.op) is not None]
    return [row.op for row in known if row.op not in UNTRIED and data_types(row)]


@pytest.mark.part
@pytest.mark.parametrize("op", some(tried(), every=30))
def test_special_values(op: str) -> None:
    row, allowed = rows()[op], documented().get(op, set())
    made = examples(row)
    assert made, f"{op} has no arguments to try: write some into special_calls.py, or a reason into UNTRIED"
    for kind in (*KINDS, EXTREMES):
        if kind in allowed or (kind == "mixed" and allowed):
            continue
        for way, given, got, want in differences(row, kind, made):
            if kind == "denormal" and way == "interpreted":
                continue  # NumPy keeps denormals
            values = "\n".join(f"{name} = {array}" for name, _, array in given.inputs)
            raise AssertionError(f"{given}, {kind}, {way}:\n{values}\nHPU {got}\nTensorFlow {want}")


def test_the_page_and_the_lists_name_rows_only() -> None:
    known = set(rows())
    assert set(documented()) <= known
    assert set(UNTRIED) <= known
    assert set(CALLS) <= known
    for kinds in documented().values():
        assert kinds <= {*KINDS, EXTREMES}


def test_functions_of_stock_tensorflow_are_simplified_and_ours_are_not() -> None:
    """The page's sentence on 1 / (1 / x): by op, TensorFlow's CPU kernels give infinity where its functions give x."""
    x = tf.constant([3e38, 1e-40])

    def twice(x: tf.Tensor) -> tf.Tensor:
        return 1 / (1 / x)

    with tf.device("/CPU:0"):
        assert twice(x).numpy().tolist() == [float("inf"), 0.0]
        assert tf.function(twice)(x).numpy().tolist() == x.numpy().tolist()
