"""The benchmark of 8-bit floats runs, and says what it was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.nn")  # tests/torch is found as `torch`, too

SCRIPT = Path(__file__).with_name("torch_float8.py")


@pytest.mark.rest
@pytest.mark.parametrize("mode", [(), ("--lazy",)], ids=["eager", "lazy"])
def test_ratios_and_bytes(mode: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "float8.json"
    command = [sys.executable, str(SCRIPT), "--cases", "of 2 rows", "4 sequences", "training", "--width", "64", *mode]
    command += ["--pairs", "1", "--json", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["case"] for line in lines] == [
        "product of 2 rows, 64 x 64 [in, out]", "product of 2 rows, 64 x 64 [out, in]",
        "product of 2 rows, 64 x 172 [in, out]", "product of 2 rows, 64 x 172 [out, in]",
        "decode of 4 sequences, 32 [in, out]", "decode of 4 sequences, 32 [out, in]", "training of 8 rows, 32",
    ]  # fmt: skip
    assert len(printed) == 1 + len(lines)
    for line in lines:
        assert line["ratio"] == pytest.approx(line["fp8_ms"] / line["bf16_ms"])  # of one pair
        held = 1 if line["case"].startswith("training") else 2  # the transformer engine keeps weights to train them
        assert line["bf16_bytes"] == held * line["fp8_bytes"] > 0


@pytest.mark.rest
def test_a_case_that_is_not_there() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--cases", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "no case has nosuch in its name" in done.stderr
