"""Captures that a program begins and ends itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from habana_tf._native import _bridge
from habana_tf.card.timeline.capture import Capture, CaptureError, file_of_rank, file_of_step


def launches(path: Path) -> int:
    found = json.loads(path.read_text())["traceEvents"]
    return sum(e.get("cat") == "launch" for e in found)


def test_what_ran_between_its_ends_is_written(tmp_path: Path) -> None:
    made: Any = _bridge.make_interpreted("here", [], [], lambda inputs, outputs, states: None)
    capture = Capture()
    capture.mark("too early")
    _bridge.run_program(made, [])
    for wanted in (2, 3):
        capture.begin()
        assert capture.running
        for _ in range(wanted):
            _bridge.run_program(made, [])
        capture.mark("here")
        path = capture.end(tmp_path / "file")
        assert launches(path) == wanted and not capture.running
        marks = [e["name"] for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "i"]
        assert marks == ["here"]
    with pytest.raises(CaptureError, match="no capture was begun"):
        capture.end(tmp_path / "other")


def test_a_capture_that_begins_anew_forgets(tmp_path: Path) -> None:
    made: Any = _bridge.make_interpreted("here", [], [], lambda inputs, outputs, states: None)
    capture = Capture()
    capture.begin()
    _bridge.run_program(made, [])
    capture.begin()
    assert launches(capture.end(tmp_path / "file")) == 0


def test_files_are_called_as_habana_s(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (file_of_rank(), file_of_step(7)) == ("worker0.local.synapse_log", "worker_0_step_7.local.synapse_log")
    for name, value in (("RANK", "1"), ("SIZE", "2"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"HABANA_SIM_{name}", value)
    assert (file_of_rank(), file_of_step(7)) == ("worker1.local.synapse_log", "worker_1_step_7.local.synapse_log")
