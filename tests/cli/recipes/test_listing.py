"""`recipes list` tells what is cached, damaged entries included, in the order and of the kind asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import RecipeCache


def _put(name: str, ops: dict[str, int], inputs: list[Any], seconds: float, size: int = 100) -> str:
    described = [{"dtype": "float32", "shape": shape} for shape in inputs]
    key = Key.of([("cluster", name), ("inputs", described)])
    header = {
        "scopes": {f"net_{name}": 3},
        "ops": ops,
        "inputs": described,
        "outputs": described,
        "takes": ", ".join(f"float32[{','.join(map(str, each['shape']))}]" for each in described[:6]),
        "tools": {"llvm": "22.1"},
        "memory": {"peak": 7},
    }
    RecipeCache().store(key, name, header, {"object": os.urandom(size)}, seconds)
    return key.digest


@pytest.fixture
def root(tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of four recipes: a step for two batch sizes, and two eager ops."""
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path))
    _put("step", {"MatMul": 2, "Relu": 1}, [[64, 10]], 2.0)
    _put("step", {"MatMul": 2, "Relu": 1}, [[5, 10]], 1.0, size=5000)
    _put("add", {"AddV2": 1}, [["n"]], 0.02)
    _put("mul", {"Mul": 1}, [["n"]], 0.04)
    for age, path in enumerate(sorted(tmp_path.rglob("*.recipe"))):
        os.utime(path, (1e9 - age, 1e9 - age))
    return tmp_path


def test_the_list_folds_recipes_of_one_op(root: Path, run: Callable[..., Any]) -> None:
    result = run("recipes", "list", "--sort", "compile")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["step", "step"]
    assert "float32[64,10]" in lines[2] and "2.0 s" in lines[2] and "2 MatMul, Relu" in lines[2]
    assert "float32[5,10]" in lines[3]
    assert "(2 one-op recipes)" in lines[4] and "AddV2, Mul" in lines[4] and "60 ms" in lines[4]
    assert "4 recipes" in lines[-1] and "compiled in 3.1 s" in lines[-1] and str(root) in lines[-1]


def test_a_recipe_takes_one_line_of_a_file(root: Path, run: Callable[..., Any]) -> None:
    _put("cluster_0123456789ab", {f"SomeLongOp{k}": 99 for k in range(30)}, [[128, 224, 224, 3]] * 50, 1234.5, 10**6)
    lines = run("recipes", "list").out.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["cluster_0123456789ab", "step", "step", "(2"]
    assert "99 SomeLongOp1, ..." in lines[2] and "float32[128,224,224,3], ..." in lines[2]


def test_all_lists_each(root: Path, run: Callable[..., Any]) -> None:
    lines = run("recipes", "list", "--all", "--sort", "name").out.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["add", "mul", "step", "step"]


@pytest.mark.parametrize(
    ("order", "fact"),
    [
        ("used", lambda row: -row["last_used"]),
        ("size", lambda row: -row["file_bytes"]),
        ("compile", lambda row: -row["header"]["compile_seconds"]),
        ("name", lambda row: row["header"]["name"]),
    ],
)
def test_json_has_every_recipe_in_order(
    root: Path, run: Callable[..., Any], order: str, fact: Callable[[dict[str, Any]], Any]
) -> None:
    data = json.loads(run("recipes", "list", "--json", "--sort", order).out)
    assert data["path"] == str(root)
    assert len(data["recipes"]) == 4
    assert [fact(row) for row in data["recipes"]] == sorted(fact(row) for row in data["recipes"])
    assert data["recipes"][0]["header"]["tools"] == {"llvm": "22.1"}
    assert data["unusable"] == []


def test_a_damaged_recipe_is_named_and_left_alone(root: Path, run: Callable[..., Any]) -> None:
    path = sorted(root.rglob("*.recipe"))[0]
    path.write_bytes(path.read_bytes()[:-1])
    result = run("recipes", "list")
    assert result.code == 0
    assert "3 recipes" in result.out
    assert f"unusable: {path}: " in result.err and "bytes long instead of" in result.err
    assert json.loads(run("recipes", "list", "--json").out)["unusable"][0]["path"] == str(path)
    assert path.exists()


def test_what_is_not_there_is_code_1(root: Path, run: Callable[..., Any]) -> None:
    result = run("recipes", "show", "nothing")
    assert result.code == 1 and "no recipe in" in result.err
    result = run("recipes", "list", "--path", str(root / "missing"))
    assert result.code == 1 and "is not a directory" in result.err


@pytest.mark.parametrize("action", ["list", "verify", "stats", "explain", "report --html {page}"])
def test_names_that_nobody_gives(root: Path, tmp_path: Path, run: Callable[..., Any], action: str) -> None:
    """Neither do they steer the terminal nor end a command."""
    shard = next(path.parent for path in root.rglob("*.recipe"))
    (shard / os.fsdecode(b"\xff\x1b[2J-00.recipe")).write_bytes(b"nothing")
    journal = shard.parent / "journal.jsonl"
    journal.touch(mode=0o600)
    journal.write_bytes(
        b'{"t":1e300,"r":"x","e":"miss"}\n{"t":1,"r":"\\ud800","e":"miss"}\n'
        b'{"t":4000000000,"r":"run\\u001b[2J","e":"miss","n":"\\u001b[2J","k":"ab"}\n'
    )
    result = run("recipes", *action.format(page=tmp_path / "page.html").split())
    assert "\x1b" not in result.out + result.err
    (result.out + result.err).encode()


def test_a_directory_others_can_write_is_refused(root: Path, run: Callable[..., Any]) -> None:
    root.chmod(0o777)
    result = run("recipes", "list")
    assert result.code == 1 and "chmod go-w" in result.err


def test_without_a_directory_it_says_how_to_name_one(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("recipes", "list")
    assert result.code == 2
    assert "set TF_RECIPE_CACHE_PATH or pass --path" in result.err


def test_an_empty_cache(tmp_path: Path, run: Callable[..., Any]) -> None:
    assert "0 recipes" in run("recipes", "list", "--path", str(tmp_path)).out


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--op", "matm"], ["step", "step"]),
        (["--op", "mul", "--op", "relu"], ["step", "step"]),
        (["--op", "Mul"], ["mul", "step", "step"]),
        (["--name", "NET_AD"], ["add"]),
        (["--name", "step", "--larger-than", "4K"], ["step"]),
        (["--smaller-than", "4KiB"], ["add", "mul", "step"]),
        (["--older-than", "1h"], []),
        (["--newer-than", "1.5h"], ["add", "mul", "step", "step"]),
        (["--unused-for", "1w"], ["add", "mul", "step", "step"]),
    ],
)
def test_filters(root: Path, run: Callable[..., Any], options: list[str], names: list[str]) -> None:
    data = json.loads(run("recipes", "list", "--json", "--sort", "name", *options).out)
    assert [row["header"]["name"] for row in data["recipes"]] == names
    assert f"{len(names)} of 4 recipes" in run("recipes", "list", *options).out or len(names) == 4


def test_reverse(root: Path, run: Callable[..., Any]) -> None:
    data = json.loads(run("recipes", "list", "--json", "--sort", "name", "--reverse").out)
    assert [row["header"]["name"] for row in data["recipes"]] == ["step", "step", "mul", "add"]


@pytest.mark.parametrize("options", [["--older-than", "soon"], ["--larger-than", "big"]])
def test_units_are_explained(root: Path, run: Callable[..., Any], options: list[str]) -> None:
    result = run("recipes", "list", *options)
    assert result.code == 2 and "write" in result.err
