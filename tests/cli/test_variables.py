"""`settings` shows every declared variable, and points at wrong ones without hiding the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from habana_tf import settings


def test_every_variable_is_there(run: Callable[..., Any]) -> None:
    result = run("settings")
    assert result.code == 0
    for setting in settings.declared():
        assert setting.name in result.out
    rows = json.loads(run("settings", "--json").out)
    assert [row["name"] for row in rows] == [setting.name for setting in settings.declared()]


def test_values_and_where_they_come_from(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLS1_MODULE_ID", "3")
    rows = {row["name"]: row for row in json.loads(run("settings", "--json").out)}
    assert (rows["HLS_MODULE_ID"]["value"], rows["HLS_MODULE_ID"]["set_by"]) == (3, "HLS1_MODULE_ID")
    assert (rows["HABANA_SIM_CHIP"]["value"], rows["HABANA_SIM_CHIP"]["set_by"]) == ("gaudi2", None)


def test_a_wrong_value_is_shown_and_code_2(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CARDS", "many")
    result = run("settings")
    assert result.code == 2
    assert "HABANA_SIM_CARDS='many' is not allowed" in result.out
    assert "TF_DUMP_GRAPH_PREFIX" in result.out
    rows = {row["name"]: row for row in json.loads(run("settings", "--json").out)}
    assert "an integer from 0 to 8" in rows["HABANA_SIM_CARDS"]["error"]


def test_what_has_no_effect_is_listed_apart(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_PROF_CONFIG", "prof.json")
    monkeypatch.setenv("HABANA_SOMETHING_NEW", "1")
    text = run("settings").out
    ours, apart = text.split("without effect here")
    for name in ("HABANA_PROF_CONFIG", "LOG_LEVEL_ALL", "TF_CLUSTER_VARIABLES", "HOROVOD_CYCLE_TIME"):
        assert name in apart and name not in ours
    rows = {row["name"]: row for row in json.loads(run("settings", "--without-effect", "--json").out)}
    assert rows["HABANA_PROF_CONFIG"]["value"] == "prof.json" and "profiler" in rows["HABANA_PROF_CONFIG"]["why"]
    assert rows["HABANA_SOMETHING_NEW"]["why"] == "unknown to habana_tf"
    assert rows["HOROVOD_CYCLE_TIME"]["read_by"] == "Horovod"
    set_now = run("settings", "--set").out
    assert all(name in set_now for name in ("HABANA_PROF_CONFIG", "HABANA_SOMETHING_NEW"))
    assert "LOG_LEVEL_ALL" not in set_now and "TF_PLACE_ON_CPU" not in set_now
    assert "TF_PLACE_ON_CPU" not in rows and "TF_PLACE_ON_CPU" not in run("settings", "--without-effect").out


def test_a_variable_of_ours_that_does_not_exist(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CACH_MODE", "ro")
    hint = "HABANA_SIM_CACH_MODE does not exist: did you mean HABANA_SIM_CACHE_MODE?"
    result = run("settings")
    assert result.code == 2 and hint in result.out and "TF_PLACE_ON_CPU" in result.out
    assert any(hint in (row["error"] or "") for row in json.loads(run("settings", "--json").out))
    for command in (["info"], ["ops"], ["recipes", "list"]):
        result = run(*command)
        assert result.code == 2 and hint in result.err, command


def test_a_slip_is_listed_with_what_was_meant(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PAHT", "/recipes")
    (row,) = (row for row in json.loads(run("settings", "--without-effect", "--json").out)
              if row["name"] == "TF_RECIPE_CACHE_PAHT")  # fmt: skip
    assert row["why"] == "nothing reads it: did you mean TF_RECIPE_CACHE_PATH?" and row["value"] == "/recipes"
