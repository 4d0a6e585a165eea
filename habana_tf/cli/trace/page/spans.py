"""The rows of spans of both clocks of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.card.timeline import chrome, summary
from habana_tf.reports.page import clock
from habana_tf.reports.page.clock import MOST_SPANS
from habana_tf.reports.page.markup import Markup
from habana_tf.reports.units import brief

_SAME = 2e-6
"""Microseconds that rounding may move an end by."""
_KINDS = ("launch", "kernel", "compile", "copy", "wait", "cpu", "MME", "TPC", "DMA", "NIC", "bundle",
          "unpredicted")  # fmt: skip


def embedded(parts: Sequence[dict[str, Any]]) -> list[Markup]:
    """The end of the page: see `clock.embedded`."""
    events = chrome.trace(parts)["traceEvents"]
    names: dict[str, int] = {}
    titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    clocks = []
    for predicted, title in ((False, "This host"), (True, "The card, as predicted")):
        mine = sorted((e for e in events if e["ph"] == "X" and ("predicted" in titles[e["pid"]]) == predicted),
                      key=lambda e: (e["ts"], -e["dur"]))  # fmt: skip
        lines: dict[tuple[int, int], list[list[float | int]]] = {}
        until: dict[tuple[int, int], list[float]] = {}
        for e in mine[:MOST_SPANS]:
            key = e["pid"], e["tid"]
            around = until.setdefault(key, [])
            while around and around[-1] <= e["ts"] + _SAME:
                around.pop()
            number = names.setdefault(e["name"], len(names))
            lines.setdefault(key, []).append([e["ts"], e["dur"], _KINDS.index(e["cat"]), number, len(around)])
            around.append(e["ts"] + e["dur"])
        several = len(parts) > 1
        made = [
            {"name": f"{titles[key[0]].split(':')[0]}: {rows[key]}" if several else rows[key], "spans": spans}
            for key, spans in sorted(lines.items())
        ]
        clocks.append(
            {"title": title, "rows": made, "cut": max(len(mine) - MOST_SPANS, 0), "show": _shown(parts, mine)}
        )
    return clock.embedded(_KINDS, list(names), clocks)


def _shown(parts: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]]) -> list[float]:
    """What is shown at first: a later launch of the costliest program, with a fifth of it on both sides."""
    found = summary.programs(parts[0])
    launches = [e for e in events if e["cat"] == "launch" and found and e["name"] == found[0].name]
    if not launches:
        return []
    one = sorted(launches[len(launches) // 2 :], key=lambda e: e["dur"])[0]
    return [one["ts"] - one["dur"] / 5, one["ts"] + one["dur"] * 1.2]


def said(parts: Sequence[dict[str, Any]]) -> str:
    """The length of the recording and the number of processes, as text."""
    sums = [summary.totals(part) for part in parts]
    return f"{brief(max(s.seconds for s in sums))} of {len(parts)} process{'es' if len(parts) > 1 else ''}"
