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
    assert {row["name"] for row in rows if row["in_recipe_key"]} == {name for name, _ in settings.key_parts()}


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
    assert "an integer from 1 to 8" in rows["HABANA_SIM_CARDS"]["error"]
