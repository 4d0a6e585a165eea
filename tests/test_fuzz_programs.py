"""What `Program::Validate` lets through stays within its buffers, and ends: a fuzzer under sanitizers says so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INPUTS = 100_000


@pytest.mark.rest
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ with its sanitizers")
def test_programs_that_pass_touch_nothing_but_their_buffers(tmp_path: Path) -> None:
    """As much as a tenth of the programs at least is run and as much refused, or the fuzzer would show nothing."""
    cmake = Path(sys.executable).with_name("cmake")
    _run(cmake, "-S", ROOT, "-B", tmp_path, "-DHABANA_FUZZ=ON", "-DCMAKE_CXX_COMPILER=g++")
    _run(cmake, "--build", tmp_path, "--parallel", "2")
    said = _run(tmp_path / "fuzz_programs", INPUTS)
    inputs, passed, launched = map(int, re.findall(r"(\d+) (?:inputs|passed|launched)", said))
    assert inputs == INPUTS
    assert launched > INPUTS // 10 and INPUTS - passed > INPUTS // 10, said


def _run(*words: object) -> str:
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True, timeout=540)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout
