"""The benchmark of single ops runs, and says what it was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("single_ops.py")


@pytest.mark.rest
@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
def test_the_slowest_first(framework: str, tmp_path: Path) -> None:
    pytest.importorskip("torch.nn" if framework == "torch" else framework)  # tests/torch is found as `torch`, too
    file = tmp_path / "ops.json"
    script = SCRIPT if framework == "tensorflow" else SCRIPT.with_name("torch_single_ops.py")
    second = "one channel" if framework == "tensorflow" else "one_hot"
    command = [sys.executable, str(script), "--ops", "roll", second, "--threads", "1", "--json", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(line["op"] for line in lines) == [second, "roll"] and len(printed) == 3
    stock = "stock_ms" if framework == "tensorflow" else "cpu_ms"
    assert [line["ratio"] for line in lines] == sorted(line[stock] / line["hpu_ms"] for line in lines)
    assert all(line["hpu_ms"] > 0 for line in lines)


@pytest.mark.rest
def test_an_op_that_is_not_there() -> None:
    pytest.importorskip("tensorflow")
    done = subprocess.run([sys.executable, str(SCRIPT), "--ops", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "no op has nosuch in its name" in done.stderr
