"""Starts the larger examples, and reads what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import forked
from tests.child import environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def train(
    program: str, *arguments: str, cards: int = 1, by: str = "hpu", cache: str | None = "", **variables: str
) -> str:  # fmt: skip
    """What a program printed, on one card or on several.

    by: the strategy of `habana-tf run`. cache: of recipes, empty for none, None for a program without that argument.
    """
    env = environment(HABANA_SIM_CARDS="4", **variables)
    words = [str(EXAMPLES / program), *(() if cache is None else ("--recipe_cache", cache)), *arguments]
    if cards == 1:
        done = forked.run(words, env, 300, hpu=True)
    else:
        tool = Path(sys.executable).parent / "habana-tf"
        env["PATH"] = f"{tool.parent}{os.pathsep}{env['PATH']}"
        line = [str(tool), "run", "-n", str(cards), "--strategy", by, *words]
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def losses(printed: str) -> dict[int, float]:
    """Step to loss."""
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+)/\d+, loss (\S+),", printed)}


def all_on_hpu(printed: str) -> bool:
    return "Ops of graphs on the CPU: none" in printed
