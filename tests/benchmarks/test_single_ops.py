"""The benchmark of single ops runs, and says what it was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("single_ops.py")


@pytest.mark.rest
def test_the_slowest_first(tmp_path: Path) -> None:
    file = tmp_path / "ops.json"
    command = [sys.executable, str(SCRIPT), "--ops", "roll", "one channel", "--threads", "1", "--json", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(line["op"] for line in lines) == ["one channel", "roll"] and len(printed) == 3
    assert [line["ratio"] for line in lines] == sorted(line["stock_ms"] / line["hpu_ms"] for line in lines)
    assert all(line["hpu_ms"] > 0 for line in lines)


@pytest.mark.rest
def test_an_op_that_is_not_there() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--ops", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "no op has nosuch in its name" in done.stderr
