"""The table of supported ops says what TensorFlow has and the page in docs/ is up to date."""

from __future__ import annotations

from pathlib import Path

from tensorflow.python.framework import op_def_registry

from habana_tf.tensorflow.lowering import catalog, table
from tests.documentation.op_pages import tensorflow_page

PAGE = Path(__file__).parents[3] / "docs" / "ops.md"


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == tensorflow_page(PAGE.read_text()), "the op table has changed: run make docs"


def test_arguments_and_attributes_are_tensorflows() -> None:
    entries = {entry.op: entry for entry in catalog.entries()}
    assert set(entries) == set(table.rows())
    for entry in entries.values():
        op_def = op_def_registry.get(entry.op)
        if op_def is None:  # not in this version of TensorFlow
            continue
        assert set(entry.types) <= {attr.name for attr in op_def.attr if attr.type == "type"}
        row = table.rows()[entry.op]
        arguments = {arg.name for arg in op_def.input_arg}
        assert {*row.fixed, *row.host, *row.updates} <= arguments


def test_some_entries() -> None:
    entries = {entry.op: entry for entry in catalog.entries()}
    assert entries["MatMul"].types == {"T": ("float32", "bfloat16")}
    assert entries["ConcatV2"].notes[0] == "`axis` fixes a shape"
    assert "updates the variable `resource`" in entries["AssignAddVariableOp"].notes
    assert catalog.short(table.rows()["ConcatV2"]) == "T: all; Tidx: int32, int64"
