"""Notebooks of examples/: kept without outputs, and run cell by cell."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.child import environment

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def kept(name: str) -> Any:
    """A notebook of this repository, which has no outputs and whose code is Python."""
    notebook = nbformat.read(FOLDER / name, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    for cell in code:
        ast.parse(cell.source)
    return notebook


def outputs(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    """Runs every cell in a process of its own; what they output, in order."""
    from nbclient import NotebookClient

    notebook = kept(name)
    for variable, value in environment(TF_CPP_MIN_LOG_LEVEL="3").items():
        monkeypatch.setenv(variable, value)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]


def printed(outputs: list[Any]) -> str:
    return "".join(out.text for out in outputs if out.output_type == "stream" and out.name == "stdout")
