"""Chrome trace events: every launch is drawn, calls lie in launches, ranks have one clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from habana_tf.card.timeline import chrome
from tests.card.timeline.parts import CARD, MS, part


def spans(trace: dict[str, Any], kind: str, process: str = "") -> list[dict[str, Any]]:
    """Events of a category in the processes whose name has `process` in it, by time."""
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    found = [e for e in trace["traceEvents"] if e.get("cat") == kind and process in names[e["pid"]]]
    return sorted(found, key=lambda e: e["ts"])


def test_the_host_is_as_recorded() -> None:
    trace = json.loads(json.dumps(chrome.trace([part()])))
    assert [(e["name"], e["ts"], e["dur"]) for e in spans(trace, "launch", "host")] == [
        ("step", 1000, 1000), ("step", 3000, 1000)]  # fmt: skip
    calls = spans(trace, "kernel")
    assert [(e["name"], e["ts"], e["dur"], e["args"]["flops"]) for e in calls] == [
        ("net/dense/MatMul", 1000, 600, 76800), ("net/dense/Relu", 1600, 400, 1280)]  # fmt: skip
    assert [e["name"] for e in spans(trace, "compile")] == ["compile step"]
    (copy,) = spans(trace, "copy")
    assert (copy["name"], copy["args"]["bytes"], copy["dur"]) == ("copy host to HPU", 4096, 1)
    (mark,) = (e for e in trace["traceEvents"] if e["ph"] == "i")
    assert (mark["name"], mark["ts"]) == ("epoch", 2000)


def test_the_card_has_its_own_clock_and_no_gaps() -> None:
    trace = chrome.trace([part()])
    assert [(e["ts"], e["dur"]) for e in spans(trace, "launch", "predicted")] == [(0, 3), (3, 3)]
    assert [e["ts"] for e in spans(trace, "MME")] == [0, 3]
    assert [(e["ts"], e["dur"], e["name"]) for e in spans(trace, "TPC")] == [
        (2, 1, "net/dense/Relu"), (5, 1, "net/dense/Relu")]  # fmt: skip
    held = [
        (e["ts"], e["args"]["in use"]) for e in trace["traceEvents"] if e["name"] == "HBM in bytes" and e["pid"] == 2
    ]
    assert held == [(0, 15200), (2, 20000), (3, 15200), (5, 20000)]
    handed = [e["args"]["in use"] for e in trace["traceEvents"] if e["name"] == "SRAM in bytes"]
    assert handed == [5120, 0, 5120, 0]
    assert [(e["ts"], e["dur"], e["name"]) for e in spans(trace, "bundle")] == [
        (0, 3, "net/dense/MatMul"), (3, 3, "net/dense/MatMul")]  # fmt: skip
    (copy,) = spans(trace, "DMA")
    assert (copy["ts"], copy["dur"], copy["args"]["bytes"]) == (0, pytest.approx(4096 / 32e9 * 1e6), 4096)


@pytest.mark.parametrize(
    "boots, second_monotonic, second_realtime, later",
    [
        ("bb", 4 * MS, 10**18 + 9 * MS, 4000),  # one host: CLOCK_MONOTONIC says it, whatever the time of day was
        ("bc", 999 * MS, 10**18 + 9 * MS, 9000),  # two hosts: the time of day says it
    ],
)
def test_ranks_have_one_clock(boots: str, second_monotonic: int, second_realtime: int, later: int) -> None:
    one = part(0, 2, boots[0])
    two = part(1, 2, boots[1], second_monotonic, second_realtime)
    trace = chrome.trace([one, two])
    for name, at in (("rank 0: host", 0), ("rank 1: host", later)):
        assert [e["ts"] for e in spans(trace, "launch", name)] == [at + 1000, at + 3000]


def test_only_so_many_intervals_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "MOST_INTERVALS", 3)
    trace = chrome.trace([part()])
    assert len(spans(trace, "MME")) == 1  # two of the first launch; with the second they would be four
    assert len(spans(trace, "launch", "predicted")) == 2


def test_what_was_forgotten_is_drawn_by_its_name() -> None:
    old = part()
    old["programs"]["7"] = {"name": "step", "how": "forgotten", "seconds": 0, "kernels": [], "hbm": [], "card": None}
    trace = chrome.trace([old])
    assert [e["name"] for e in spans(trace, "kernel")] == ["call 0", "call 1"]
    assert not spans(trace, "launch", "predicted") and len(spans(trace, "launch", "host")) == 2


def test_what_cannot_be_predicted_says_why() -> None:
    """Where the launch would be there is a span of no length with the reason, and the file names the programs."""
    odd = part()
    odd["programs"]["7"]["card"] = {**CARD, "seconds": 0.0, "intervals": [], "bundles": [], "use": [], "results": [],
                                    "why": "its cluster cannot be lowered: Odd has no row"}  # fmt: skip
    trace = chrome.trace([odd])
    assert not spans(trace, "launch", "predicted") and not spans(trace, "MME")
    assert [(e["name"], e["dur"], e["args"]["why"]) for e in spans(trace, "unpredicted")] == [
        ("step is not predicted", 0, "its cluster cannot be lowered: Odd has no row")] * 2  # fmt: skip
    assert trace["otherData"]["not predicted"] == {"step": "its cluster cannot be lowered: Odd has no row"}
