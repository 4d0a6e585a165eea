"""The example as a newcomer runs it: it learns, and the second time nothing is compiled."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_digits.py"


def run(recipes: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        env=environment(TF_RECIPE_CACHE_PATH=str(recipes), **variables),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.rest
def test_learns_then_compiles_nothing_again(tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    first = run(recipes)
    accuracy = re.search(r"Test accuracy: ([\d.]+)%", first)
    assert accuracy is not None and float(accuracy[1]) >= 97, first
    assert "HPU placement" in first
    compiled = re.search(r"(\d+) recipes were compiled in [\d.]+ s, 0 came from the cache", first)
    assert compiled is not None, first

    second = run(recipes, "--epochs", "1", HABANA_SIM_COMPILE="forbid")
    cached = re.search(r"Nothing was compiled: all (\d+) recipes came from the cache, which saved [\d.]+ s", second)
    assert cached is not None and cached[1] == compiled[1], second
    assert f"{cached[1]} recipes," in second, "the list of recipes"


@pytest.mark.rest
def test_without_a_cache_directory_says_how_to_get_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--epochs", "1"], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Set TF_RECIPE_CACHE_PATH" in done.stdout
