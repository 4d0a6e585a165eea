"""The memory report: its columns sum up to what the allocator gave out, and its owner is the launch at the peak."""

from __future__ import annotations

import json
from collections import OrderedDict

import pytest

from habana_tf.resolver import memory, memory_report
from habana_tf.resolver.memory import LaunchMemory
from habana_tf.resolver.memory_report import REST
from tests.reports.samples import memory as sample

HELD = {"weights": 300, "optimizer": 600, "other variables": 8, "tensors": 50}


@pytest.fixture(autouse=True)
def _no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_plans", OrderedDict())
    monkeypatch.setattr(memory, "_one_op", {})


def plan(name: str, before: int, adds: int, fed: int = 0) -> LaunchMemory:
    return LaunchMemory(name, fed + 300, adds, 0, 0, 0, fed=fed, before=before)


def test_what_no_row_explains_is_a_row_of_its_own() -> None:
    report = memory_report.report(1 << 30, 1000, 1500, HELD)
    assert report.now == {"weights": 300, "optimizer": 600, "other variables": 8, "tensors": 50, REST: 42}
    assert report.owner is None and report.at_peak[REST] == 1500 - 908
    memory.record(plan("step", 1000, 400, fed=30))
    report = memory_report.report(1 << 30, 1000, 1500, HELD)
    assert report.owner is not None and report.owner.name == "step"
    assert (report.at_peak["inputs"], report.at_peak["outputs"], report.at_peak[REST]) == (30, 400, 162)
    assert sum(report.now.values()) == 1000 and sum(report.at_peak.values()) == 1500


def test_tensors_that_share_memory_are_not_more_than_there_is() -> None:
    report = memory_report.report(1 << 30, 1000, 1000, {**HELD, "tensors": 5000})
    assert report.now["tensors"] == 92 and report.now[REST] == 0


def test_the_owner_reached_most_and_not_more_than_the_peak() -> None:
    memory.record(plan("large, before the optimizer was there", 300, 500))
    memory.record(plan("step", 1000, 400))
    memory.record(plan("before the peak was reset", 9000, 400))
    memory.record_one_op(plan("MatMul", 900, 100))
    found = memory_report.report(1 << 30, 1000, 1500, HELD).owner
    assert found is not None and found.name == "step"


def test_it_prints_and_is_json() -> None:
    report = sample()
    known = json.loads(report.to_json())
    assert sum(known["now"].values()) == known["current"] and sum(known["at_peak"].values()) == known["peak"]
    assert known["owner"]["op"] == "gradient_tape/größe/layer/MatMul" and known["launches"][0]["card_peak"]
    text = report.text(80)
    assert "96.0 GiB" in text and "and 2 smaller ones" in text and "at gradient_tape/größe/layer/MatMul" in text


def test_an_argument_that_is_called_like_a_cluster_is_an_input() -> None:
    from habana_tf.resolver.memory import _LAUNCH

    assert _LAUNCH.match("cluster_0123456789ab") and _LAUNCH.match("cluster_0123456789ab:1")
    assert not _LAUNCH.match("cluster_ids") and not _LAUNCH.match("cluster_0123456789abc")
