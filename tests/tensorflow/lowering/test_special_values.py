"""NaN, infinities, denormals and signed zeros in every row of the op table: what HPU makes of them, beside what stock
TensorFlow's CPU kernels make of them. docs/special-values.md says for each row where the two differ, and why; this
test holds it to that.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from special_calls import CALLS
from special_table import COLUMNS, PAGE, TITLE, UNTRIED, documented, known, markdown, reasons, tried
from special_values import data_types, examples, outcome

from habana_tf.hardware.cpu import target
from habana_tf.tensorflow.lowering.table import rows
from tests.effort import THOROUGH, some

WRITTEN_HERE = target().lanes == 16 and tf.__version__.startswith("2.15.")
"""Whether this machine is like that of the page's table. Elsewhere the vectors of TensorFlow's kernels end in other
places, and a difference may not be there."""


@pytest.mark.part
@pytest.mark.parametrize("op", some(tried(), every=30))
def test_special_values(op: str) -> None:
    row, profile = rows()[op], dict(zip(COLUMNS, documented()[op], strict=True))
    made = examples(row)
    assert made, f"{op} has no arguments to try: write some into special_calls.py, or a reason into UNTRIED"
    for kind, mark in profile.items():
        found = outcome(row, kind, made)
        if mark != "≠" and found.differences:
            way, given, got, want = found.differences[0]
            values = "\n".join(f"{name} = {array}" for name, _, array in given.inputs)
            raise AssertionError(f"{given}, {kind}, {way}:\n{values}\nHPU {got}\nTensorFlow {want}")
        if WRITTEN_HERE and THOROUGH:
            assert found.mark == mark, f"{kind}: {PAGE} has {mark}"


def test_the_page_has_every_row_and_a_reason_for_every_difference() -> None:
    assert set(documented()) == set(tried())
    page = PAGE.read_text()
    assert page[page.index(TITLE) :] == markdown(documented())
    for op, profile in documented().items():
        differs = {kind for kind, mark in zip(COLUMNS, profile, strict=True) if mark == "≠"}
        why = reasons().get(op, set())
        assert differs - {"mixed"} <= why <= set(COLUMNS), op
        assert bool(differs) == bool(why), f"{op} is in one of the tables only"


def test_the_lists_name_rows_only() -> None:
    assert {*UNTRIED, *CALLS, *reasons()} <= set(rows())
    assert all(data_types(rows()[op]) for op in UNTRIED if op in known())
