"""Recipes whose plans were changed anywhere never end the process that loads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment
from tests.compiler.lying_recipes import KINDS

ROOT = Path(__file__).parents[2]
KNOWN = {"changed", "unsealed", "refused", "same", "other", "error", "crashed", "endless"}


@pytest.mark.parametrize("count", [8, pytest.param(500, marks=pytest.mark.rest)])
def test_changed_plans_are_refused_or_run_and_all_break_the_seal(count: int) -> None:
    words = [sys.executable, "-m", "tests.compiler.lying_recipes", str(count), "7"]
    env = environment()
    env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{ROOT}"
    done = subprocess.run(words, env=env, text=True, capture_output=True, timeout=560)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found.keys() == KINDS.keys()
    for kind, counts in found.items():
        assert counts.keys() <= KNOWN, (kind, counts)
        assert counts["unsealed"] == counts["changed"] > count // 2
        assert counts["refused"] > counts["changed"] // 2, (kind, counts)
