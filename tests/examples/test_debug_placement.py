"""The notebook on placement: every cell runs, and the op, the layer and the remedy are what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import notebooks

NAME = "debug_placement.ipynb"


def test_it_is_kept_without_outputs() -> None:
    assert len(notebooks.kept(NAME).cells) > 10


@pytest.mark.slow
@pytest.mark.rest
def test_every_cell_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs = notebooks.outputs(NAME, monkeypatch, tmp_path)
    assert sum("image/png" in out.get("data", {}) for out in outputs) == 1
    printed = notebooks.printed(outputs)
    before, after = printed.split("Mul gradient_tape", 1)
    assert before.count("not for this element type\n") == 4 and "3 clusters" in before
    assert "sequential/scaled/mul/Mul on device:CPU:0" in after and "Mul sequential/scaled/mul on" in after
    assert after.count("nothing on the CPU") == 2
    assert "the same numbers, to roundings" in after and "HPU placement" in after
