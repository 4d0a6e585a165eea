"""The notebook: every cell runs, each question has its plot, and the file is kept without outputs.

Without outputs, because they follow from the model of the cards and would be stale with its next parameter; what a
reader would miss, this test makes each time.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.child import environment

PATH = Path(__file__).resolve().parents[2] / "examples" / "explore_gaudi.ipynb"
QUESTIONS = ("Three chips", "Batch sizes", "bf16 against fp32", "One to 64 cards", "Alignment", "Recompilations")


def read() -> Any:
    return nbformat.read(PATH, as_version=4)


def test_it_is_kept_without_outputs_and_explains_each_plot() -> None:
    notebook = read()
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    for cell in code:
        ast.parse(cell.source)
    text = "\n".join(cell.source for cell in notebook.cells)
    for question in QUESTIONS:
        section = text.split(f"## {question}\n")[1].split("\n## ")[0]
        assert section.count("plt.show()") == 1 and section.count("**Why:**") == 1, question


@pytest.mark.slow
@pytest.mark.rest
def test_every_cell_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    notebook = read()
    for name, value in environment(TF_CPP_MIN_LOG_LEVEL="3").items():
        monkeypatch.setenv(name, value)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert sum("image/png" in out.get("data", {}) for out in outputs) == len(QUESTIONS)
    printed = "".join(out.text for out in outputs if out.output_type == "stream" and out.name == "stdout")
    for words in ("1 x gaudi2, batch 256 each, bf16", "largest batch that fits", "a range, here s0", "predicted, for"):
        assert words in printed, words
