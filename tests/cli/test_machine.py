"""`info` describes the simulated machine and the host, and reports wrong settings."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from habana_tf.hardware import calibration, cpu
from tests.hardware.bf16_ways import multiply_bf16_by


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


def test_how_bf16_is_multiplied_and_who_says_so(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HABANA_SIM_ISA", "portable")
    assert "widen: made fp32 first (this target cannot multiply pairs)" in run("info").out
    monkeypatch.delenv("HABANA_SIM_ISA")
    if not cpu.target().multiplies_bf16_pairs:
        return
    for source in ("measured now", str(tmp_path)):
        monkeypatch.setattr(calibration, "_answers", {})
        facts = json.loads(run("info", "--json").out)["cpu"]
        assert facts["bf16_products"] in ("dot", "widen") and facts["bf16_products_by"].startswith(source)
    multiply_bf16_by("dot", monkeypatch)
    assert "dot: pairs by one instruction (a test)" in run("info").out


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


def test_pytorchs_version_says_whether_it_is_tested(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_tf.cli import machine

    for number, said in (("2.13.0+cpu", "2.13.0+cpu (tested: 2.10 to 2.14)"), ("2.5.1", "2.5.1 (not tested: 2.10")):
        monkeypatch.setattr(machine, "version", lambda package, number=number: number if package == "torch" else None)
        assert said in run("info").out
        assert json.loads(run("info", "--json").out)["versions"]["torch"] == number
