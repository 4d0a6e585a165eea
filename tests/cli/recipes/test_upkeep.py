"""`recipes stats`, `verify`, `prune`, `clear`, `export`, `import`, `path`: what they do, and exit codes."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.recipes.conftest import Keys


def _files(cached: Keys) -> list[Path]:
    return sorted(cached.path.rglob("*.recipe"))


def test_stats_add_up(cached: Keys, run: Callable[..., Any]) -> None:
    data = json.loads(run("recipes", "stats", "--json").out)
    assert data["runs"] == 2
    assert (data["totals"]["misses"], data["totals"]["disk_hits"], data["totals"]["compiled"]) == (5, 5, 5)
    assert data["totals"]["compile_seconds"] == pytest.approx(6.06) == data["totals"]["saved_seconds"]
    assert [run["events"]["hit"] for run in data["last"]] == [0, 5]
    text = run("recipes", "stats").out
    assert "5 (50 % of 10)" in text and "6.1 s by 5 recipes" in text
    assert len(json.loads(run("recipes", "stats", "--json", "--runs", "1").out)["last"]) == 1
    assert run("recipes", "stats", "--runs", "-1").code == 2


def test_verify_is_code_1_for_damage(cached: Keys, run: Callable[..., Any]) -> None:
    good = run("recipes", "verify")
    assert good.code == 0 and good.out.startswith("5 intact")
    path = _files(cached)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    bad = run("recipes", "verify")
    assert bad.code == 1 and bad.out.startswith("4 intact") and f"unusable: {path}" in bad.out
    assert json.loads(run("recipes", "verify", "--json").out)["problems"][0][0] == str(path)


def test_prune_by_age_and_size(cached: Keys, run: Callable[..., Any]) -> None:
    old = next(cached.path.rglob("Mul-*.recipe"))
    for path in _files(cached):
        os.utime(path, (time.time() - 3600,) * 2)
    os.utime(old, (time.time() - 3 * 86400,) * 2)
    assert run("recipes", "prune").out.startswith("0 files"), "below TF_RECIPE_CACHE_SIZE_MB"
    assert json.loads(run("recipes", "prune", "--unused-for", "2d", "--json").out)["removed"] == 1
    assert not old.exists() and len(_files(cached)) == 4
    assert json.loads(run("recipes", "prune", "--max-size", "0", "--json").out)["removed"] == 4
    assert run("recipes", "prune", "--max-size", "much").code == 2


def test_clear_asks(cached: Keys, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("recipes", "clear")
    assert refused.code == 2 and "pass --yes" in refused.err

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    refused = run("recipes", "clear")
    assert refused.code == 1 and "Remove all 5 recipes" in refused.err and "nothing was removed" in refused.err
    assert len(_files(cached)) == 5
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert run("recipes", "clear").code == 0
    assert _files(cached) == []


def test_clear_with_yes(cached: Keys, run: Callable[..., Any]) -> None:
    assert json.loads(run("recipes", "clear", "--yes", "--json").out)["removed"] == 5


def test_read_only_is_code_1(cached: Keys, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "ro")
    for arguments in (["clear", "--yes"], ["prune"]):
        result = run("recipes", *arguments)
        assert result.code == 1 and "HABANA_SIM_CACHE_MODE=ro" in result.err
    assert len(_files(cached)) == 5


def test_a_bundle_takes_recipes_elsewhere(cached: Keys, run: Callable[..., Any], tmp_path: Path) -> None:
    bundle, other = str(tmp_path / "b"), str(tmp_path / "other")
    assert json.loads(run("recipes", "export", bundle, cached["5"][:10], "Mul", "--json").out)["recipes"] == 2
    assert json.loads(run("recipes", "import", bundle, "--path", other, "--json").out)["added"] == 2
    assert "0 recipes added, 2 were there" in run("recipes", "import", bundle, "--path", other).out
    listed = json.loads(run("recipes", "list", "--json", "--path", other).out)["recipes"]
    assert {row["header"]["digest"] for row in listed} == {cached["5"], cached["mul"]}
    Path(bundle).write_bytes(b"something else")
    result = run("recipes", "import", bundle, "--path", other)
    assert result.code == 1 and "not a bundle" in result.err
    assert run("recipes", "export", str(tmp_path / "missing" / "b")).code == 1


def test_path(cached: Keys, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("recipes", "path").out == f"{cached.path}\n"
    assert json.loads(run("recipes", "path", "--json").out) == {"path": str(cached.path), "exists": True}
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH")
    assert run("recipes", "path").code == 2


def test_the_check(cached: Keys, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("check", "--recipes")
    assert result.code == 0 and "v6 (this one)" in result.out and "PROBLEM" not in result.out
    assert json.loads(run("check", "--recipes", "--json").out)["problems"] == 0
    cached.path.chmod(0o777)
    result = run("check", "--recipes")
    assert result.code == 1 and "PROBLEM" in result.out and "chmod go-w" in result.out
    cached.path.chmod(0o700)
    shard = next(path for path in cached.path.rglob("*") if path.name == cached["mul"][:2])
    shard.chmod(0o777)
    result = run("check", "--recipes", str(cached.path))
    assert result.code == 1 and str(shard) in result.out.replace("\n", ""), "its recipes are compiled anew every time"
    shard.chmod(0o700)
    monkeypatch.setenv("TF_RECIPE_CACHE_SIZE_MB", "lots")
    assert run("check", "--recipes").code == 1
    assert "habana-tf check --recipes" in run("recipes", "--help").out


@pytest.mark.parametrize("arguments", [["stats"], ["verify"], ["prune"], ["explain"], ["clear", "--yes"]])
def test_without_a_directory(run: Callable[..., Any], tmp_path: Path, arguments: list[str]) -> None:
    result = run("recipes", *arguments)
    assert result.code == 2 and "set TF_RECIPE_CACHE_PATH or pass --path" in result.err
    result = run("recipes", *arguments, "--path", str(tmp_path / "missing"))
    assert result.code == 1 and "is not a directory" in result.err
