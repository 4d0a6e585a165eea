"""The benchmark of PyTorch's sizes runs, and says what it was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.nn")  # tests/torch is found as `torch`, too

SCRIPT = Path(__file__).with_name("torch_sizes.py")


@pytest.mark.rest
def test_recipes_and_times(tmp_path: Path) -> None:
    file = tmp_path / "sizes.json"
    command = [sys.executable, str(SCRIPT), "--cases", "row added", "softmax", "--calls", "6", "--json", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["case"] for line in lines] == ["row added to", "softmax"] and len(printed) == 3
    for line in lines:
        assert 0 < line["recipes"] <= 4 and 0 < line["met_ms"] <= line["walk_ms"] and line["first_ms"] > 0


@pytest.mark.rest
def test_a_case_that_is_not_there() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--cases", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "no case has nosuch in its name" in done.stderr
