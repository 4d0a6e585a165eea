"""The notebook: every cell runs, each question has its plot, and the file is kept without outputs.

Without outputs, because they follow from the model of the cards and would be stale with its next parameter; what a
reader would miss, this test makes each time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import notebooks

NAME = "explore_gaudi.ipynb"
QUESTIONS = ("Three chips", "Batch sizes", "bf16 against fp32", "One to 64 cards", "Alignment", "Recompilations")


def test_it_is_kept_without_outputs_and_explains_each_plot() -> None:
    notebook = notebooks.kept(NAME)
    text = "\n".join(cell.source for cell in notebook.cells)
    for question in QUESTIONS:
        section = text.split(f"## {question}\n")[1].split("\n## ")[0]
        assert section.count("plt.show()") == 1 and section.count("**Why:**") == 1, question


@pytest.mark.slow
@pytest.mark.rest
def test_every_cell_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs = notebooks.outputs(NAME, monkeypatch, tmp_path)
    assert sum("image/png" in out.get("data", {}) for out in outputs) == len(QUESTIONS)
    printed = notebooks.printed(outputs)
    for words in ("1 x gaudi2, batch 256 each, bf16", "largest batch that fits", "a range, here s0", "predicted, for"):
        assert words in printed, words
