"""The logger's commands begin and end captures, in files under Habana's names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from habana_frameworks.tensorflow import py_synapse_logger as logger
from habana_tf._native import _bridge


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logger, "_file", None)
    yield tmp_path
    logger.command("disable")


def launch(times: int) -> None:
    made: Any = _bridge.make_interpreted("here", [], [], lambda inputs, outputs, states: None)
    for _ in range(times):
        _bridge.run_program(made, [])


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def test_a_capture_by_commands(folder: Path) -> None:
    for text in ("file_name=mine.log", "category_mask=0x3", "restart"):
        logger.command(text)
    launch(3)
    logger.put_log("half", 1)
    launch(2)
    logger.command("stop_data_capture")
    found = events(folder / "mine.log")
    assert sum(e.get("cat") == "launch" for e in found) == 5
    assert [e["name"] for e in found if e["ph"] == "i"] == ["half"]
    (folder / "mine.log").unlink()
    logger.command("disable")  # nothing runs, so nothing is written
    assert not list(folder.iterdir())


def test_a_trace_of_the_hardware(folder: Path) -> None:
    logger.start_hw_profile()
    launch(4)
    logger.stop_hw_profile()
    found = events(folder / "worker0.local.synapse_log")
    assert sum(e.get("cat") == "launch" for e in found) == 4


def test_another_command_is_an_error() -> None:
    with pytest.raises(logger.NotSimulated, match=r"command\('enable_mask'\) is not known here"):
        logger.command("enable_mask")
