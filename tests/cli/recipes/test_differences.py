"""`recipes explain` and `diff` name the part of the key that differs, and say how."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from habana_tf.cli.recipes.changes import changes
from tests.cli.recipes.conftest import Keys


def test_the_last_run_that_missed_is_explained(cached: Keys, run: Callable[..., Any]) -> None:
    result = run("recipes", "explain")
    assert result.code == 0
    lines = result.out.splitlines()
    (five,) = [line for line in lines if line.split()[1:2] == [cached["5"][:12]]]
    assert "input 0: float32[64,30] -> float32[5,30]" in five and cached["64"][:12] in five
    (first,) = [line for line in lines if line.split()[1:2] == [cached["64"][:12]]]
    assert "no recipe of it was there" in first
    assert "Mul" not in "".join(line for line in lines if "step" in line)
    assert any("1 single ops (--all): Mul" in line for line in lines)
    assert "5 misses of the run" in result.out
    assert any(line.startswith("Mul ") for line in run("recipes", "explain", "--all").out.splitlines())


def test_json_and_other_runs(cached: Keys, run: Callable[..., Any]) -> None:
    missed = json.loads(run("recipes", "explain", "--json").out)["misses"]
    assert {miss["event"]["digest"] for miss in missed} == set(cached.values())
    name = missed[0]["event"]["run"]
    assert json.loads(run("recipes", "explain", "--json", "--run", name).out)["misses"] == missed
    wrong = run("recipes", "explain", "--run", "nobody-1-2")
    assert wrong.code == 1 and "no run in the journal" in wrong.err


def test_a_recipe_is_compared_with_its_nearest(cached: Keys, run: Callable[..., Any]) -> None:
    data = json.loads(run("recipes", "explain", cached["any"], "--json").out)
    assert data["right"] == cached["any"] and data["left"] in (cached["5"], cached["64"])
    assert [part["name"] for part in data["key"]] == ["inputs"]


def test_any_two_recipes_are_compared(cached: Keys, run: Callable[..., Any]) -> None:
    out = run("recipes", "diff", cached["64"], cached["5"]).out
    assert "input 0: float32[64,30] -> float32[5,30]" in out
    assert "2.0 s" in out and "1.0 s" in out
    assert "another cluster" in run("recipes", "diff", cached["64"], cached["mul"]).out
    assert "the keys are equal" in run("recipes", "diff", cached["64"], cached["64"]).out
    assert run("recipes", "diff", cached["64"]).code == 2


def test_nothing_missed(tmp_path: Any, run: Callable[..., Any]) -> None:
    assert "nothing was missed" in run("recipes", "explain", "--path", str(tmp_path)).out


@pytest.mark.parametrize(
    ("part", "left", "right", "lines"),
    [
        ("inputs", [["float32", [3, 4]]], [["float32", ["s0", "4"]]], ["input 0: float32[3,4] -> float32[s0,4]"]),
        ("inputs", [["float32", [3]]], [], ["1 inputs -> 0"]),
        ("inputs", [["float32", [3]]], [["float32", ["3"]]], ["fixed sizes -> a range of sizes"]),
        ("target.llvm_features", "+a,+b,-c", "+a,+c,-c", ["only left: +b", "only right: +c"]),
        ("target.llvm_features", "+a,+b", "+b,+a", ["the same in another order"]),
        ("compiler", "x", None, ["x -> (not there)"]),
        ("cluster", "abc", "abd", ["another cluster"]),
        ("custom ops", [["A", "x"], ["B", "y"]], [["A", "x"], ["B", "z"]], ["another lowering or kernel of B"]),
        ("custom ops", [["Relu", "x"]], None, ["a lowering or kernel of the program's for Relu, or none"]),
    ],
)
def test_changes(part: str, left: object, right: object, lines: list[str]) -> None:
    assert changes(part, left, right) == lines


def test_many_changes_are_cut() -> None:
    lines = changes("inputs", [["float32", [k]] for k in range(50)], [["float32", [k + 1]] for k in range(50)])
    assert len(lines) == 9 and lines[-1] == "and 42 more"
