"""`ops --missing` lists what TensorFlow computes and HPU does not, most used first; it needs TensorFlow and says so."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from habana_tf.cli import missing
from habana_tf.lowering.table import FAMILIES, rows


def test_what_is_listed_runs_on_the_cpu_and_has_no_row(run: Callable[..., Any]) -> None:
    listed = {entry["op"]: entry for entry in json.loads(run("ops", "--missing", "--json").out)}
    assert not listed.keys() & rows().keys()
    assert all(hasattr(tf.raw_ops, op) for op in listed)
    assert listed["Svd"]["family"] == "linalg" and listed["Svd"]["module"] == "linalg"
    assert listed["Betainc"]["real_card"] == "not known"
    assert listed["CombinedNonMaxSuppression"]["real_card"] == "HPU"
    assert listed["Betainc"]["module"] == "special" and not listed["Betainc"]["new_module"]
    assert all(entry["new_module"] == (entry["module"] is not None and entry["module"] not in FAMILIES)
               for entry in listed.values())  # fmt: skip


@pytest.mark.parametrize(
    "op",
    ["StringUpper", "LookupTableFindV2", "ReadFile", "FFT", "ReadVariableOp", "While", "Assign", "BatchCholesky"],
)
def test_what_has_no_place_on_a_card_is_not_listed(run: Callable[..., Any], op: str) -> None:
    """Strings, tables, files, complex numbers; what every device has; references; what is outdated."""
    assert op not in {entry["op"] for entry in json.loads(run("ops", "--missing", "--json").out)}


def test_the_most_used_come_first(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"Svd": (0, 2), "Betainc": (3, 0), "Qr": (0, 1)}
    monkeypatch.setattr(missing, "uses", lambda: {"uses": counts, "networks": 9, "cases": 99, "keras": "2.15.0"})
    listed = json.loads(run("ops", "--missing", "--json").out)
    assert [entry["op"] for entry in listed if entry["networks"] + entry["cases"]] == ["Betainc", "Svd", "Qr"]
    assert listed[0]["op"] == "Betainc" and (listed[0]["networks"], listed[0]["cases"]) == (3, 0)
    families = [entry["family"] for entry in listed]
    assert list(dict.fromkeys(families))[:2] == ["math", "linalg"], "by their most used op"
    assert all(families.index(f) + families.count(f) == len(families) - families[::-1].index(f) for f in families)
    text = run("ops", "--missing").out
    assert "of 9 networks and of 99 layers" in text
    assert text.index("Betainc") < text.index("Svd") < text.index("Cholesky")


def test_names_and_families_choose(run: Callable[..., Any]) -> None:
    listed = json.loads(run("ops", "--missing", "linalg", "betainc", "--json").out)
    assert {entry["family"] for entry in listed} == {"linalg", "math"}
    assert [entry["op"] for entry in listed if entry["family"] == "math"] == ["Betainc"]
    result = run("ops", "--missing", "matmulx")
    assert result.code == 1 and "'matmulx'" in result.err
    assert run("ops", "--missing", "--markdown").code == 2


def test_without_tensorflow_it_says_so(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(tell: object) -> Any:
        raise ModuleNotFoundError("No module named 'tensorflow'")

    monkeypatch.setattr(missing, "missing", none)
    result = run("ops", "--missing")
    assert result.code == 1 and "TensorFlow, which cannot be imported" in result.err


def test_the_counts_are_of_ops() -> None:
    data = missing.uses()
    assert data["uses"]["MatMul"][0] >= 20 and data["uses"]["Conv2D"][0] >= 15
    assert all(n <= data["networks"] and m <= data["cases"] for n, m in data["uses"].values())


@pytest.mark.parametrize("terminal", [True, False])
def test_on_a_terminal_it_says_what_it_is_doing(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    result = run("ops", "--missing", "svd")
    lines = [line.removesuffix("\033[K") for line in result.err.split("\r")]
    if terminal:
        assert lines[1] == "importing TensorFlow ..." and lines[-1] == "", lines
        assert re.fullmatch(r"looking at TensorFlow's ops: 0 of \d{4}", lines[2]) and len(lines) > 10
    else:
        assert result.err == ""
