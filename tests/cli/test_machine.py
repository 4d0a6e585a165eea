"""`info` describes the simulated machine and the host, and reports wrong settings."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from typing import Any

import pytest


def test_the_table(run: Callable[..., Any]) -> None:
    result = run("info")
    assert result.code == 0
    for words in ("GAUDI2, HL-225, 96.0 GiB", "7 (0000:b4:00.0)", platform.machine(), "llvmlite"):
        assert words in result.out


def test_json_follows_the_settings(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "HABANA_SIM_CHIP": "gaudi3",
        "HABANA_SIM_CARDS": "4",
        "HLS_MODULE_ID": "2",
        "HABANA_SIM_ISA": "portable",
    }.items():
        monkeypatch.setenv(name, value)
    facts = json.loads(run("info", "--json").out)
    assert facts["chip"]["product"] == "HL-325L"
    assert [card["module_id"] for card in facts["cards"]] == [0, 1, 2, 3]
    assert facts["possible_module_ids"] == [2]
    assert facts["cpu"]["isa"] == "portable"
    assert facts["versions"]["python"] == platform.python_version()


@pytest.mark.parametrize(
    ("name", "value"), [("HABANA_SIM_CHIP", "gaudi9"), ("HLS_MODULE_ID", "8"), ("HABANA_SIM_ISA", "sse")]
)
def test_wrong_settings_are_code_2(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    result = run("info")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("habana-tf: ") and name in result.err
