"""Timelines as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Each rank has two processes. "host" is real: a row per thread, with launches, the kernel calls in them, compilations,
graph passes, copies, sums with other ranks, ops on the CPU. "card" is predicted: the launches, a row per engine, the
bundles, and counters for SRAM and HBM. The cards have a clock of their own, because they are faster than the hosts
(`card_clock`); it begins when the first rank began to record.

All ranks share one clock: those of one host by CLOCK_MONOTONIC, hosts among each other by the time of day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from habana_tf.card.timeline import card_clock
from habana_tf.card.timeline.part import by_call
from habana_tf.card.timeline.record import EventKind

MOST_INTERVALS = 200_000
"""Predicted intervals of a rank that are drawn; launches after them are drawn as a whole."""

_PHASES = {
    EventKind.GRAPH_PASS: ("graph pass", "compile"),
    EventKind.TO_CARD: ("copy host to HPU", "copy"),
    EventKind.FROM_CARD: ("copy HPU to host", "copy"),
    EventKind.ON_CARD: ("copy on HPU", "copy"),
    EventKind.SUM: ("sum with other ranks", "wait"),
}
_WORDS = {"compiled": "compile", "cache": "load from cache", "known": "bind", "interpreted": "prepare to interpret",
          "forgotten": "resolve"}  # fmt: skip


def trace(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The JSON object format of Chrome's trace events. Times are microseconds from the beginning of the first rank."""
    offsets = aligned(parts)
    events: list[dict[str, Any]] = []
    for number, (part, offset, does) in enumerate(zip(parts, offsets, card_clock.clocks(parts), strict=True)):
        host, card = 2 * number + 1, 2 * number + 2
        rank = f"rank {part['rank']}: " if part["size"] > 1 or len(parts) > 1 else ""
        events += _label("process", host, 0, f"{rank}host, pid {part['pid']} on {part['host']}", 2 * number)
        events += _label("process", card, 0, f"{rank}{part['chip']} as predicted, in its own clock", 2 * number + 1)
        events.extend(_host(part, offset, host))
        events.extend(_card(part, does, card))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "ranks": [{k: p[k] for k in ("rank", "pid", "host", "command", "chip", "dropped")} for p in parts],
            "basis of predictions": parts[0]["basis"] if parts else "",
            "not predicted": {name: why for p in parts for name, why in card_clock.unpredicted(p).items()},
        },
    }


def write(parts: Sequence[dict[str, Any]], path: str | Path) -> int:
    """Writes the events to a file; returns how many bytes it has. Raises OSError."""
    return Path(path).write_text(json.dumps(trace(parts), separators=(",", ":")), "utf-8")


def aligned(parts: Sequence[dict[str, Any]]) -> list[int]:
    """Per part what its nanoseconds begin at, so that all have one clock whose zero is where the first began."""
    offsets: dict[str, int] = {}
    for part in parts:
        clock = part["clock"]
        offsets.setdefault(clock["boot"], clock["realtime"] - clock["monotonic"])
    zero = min((p["begin"] + offsets[p["clock"]["boot"]] for p in parts), default=0)
    return [zero - offsets[p["clock"]["boot"]] for p in parts]


def _label(what: str, pid: int, tid: int, name: str, order: int) -> list[dict[str, Any]]:
    """The name of a "process" or a "thread", and its place among the others."""
    return [
        {"ph": "M", "pid": pid, "tid": tid, "name": f"{what}_name", "args": {"name": name}},
        {"ph": "M", "pid": pid, "tid": tid, "name": f"{what}_sort_index", "args": {"sort_index": order}},
    ]


def _span(pid: int, tid: int, name: str, kind: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    """start, length: nanoseconds."""
    event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": kind, "ts": round(start / 1e3, 6),
             "dur": round(max(length, 0) / 1e3, 6)}  # fmt: skip
    return {**event, "args": args} if args else event


def _host(part: dict[str, Any], zero: int, pid: int) -> Iterator[dict[str, Any]]:
    kernels = {number: by_call(program["kernels"]) for number, program in part["programs"].items()}
    for order, thread in enumerate(part["threads"]):
        yield from _label("thread", pid, thread["id"], f"{thread['name']} {thread['id']}", order)
        for start, end, subject, kind, detail, threads, hbm in thread["events"]:
            program = part["programs"].get(str(subject), {"name": "a program", "how": "forgotten", "kernels": []})
            at, length = start - zero, end - start
            if kind == EventKind.LAUNCH:
                about = {"kernel calls": detail, "threads": threads}
                yield _span(pid, thread["id"], program["name"], "launch", at, length, **about)
                if hbm:
                    taken = {"taken": hbm << 20}
                    yield {"ph": "C", "pid": pid, "name": "HBM in bytes", "ts": round((end - zero) / 1e3, 3),
                           "args": taken}  # fmt: skip
            elif kind == EventKind.KERNEL_CALL:
                row = kernels.get(str(subject), {}).get(detail)
                name = f"call {detail}" if row is None else row["name"]
                yield _span(pid, thread["id"], name, "kernel", at, length, threads=threads, **_work(row))
            elif kind == EventKind.RESOLVE:
                name = f"{_WORDS[program['how']]} {program['name']}"
                yield _span(pid, thread["id"], name, "compile", at, length)
            elif kind == EventKind.CPU_OP:
                name = part["ops"].get(str(subject), "an op")
                yield _span(pid, thread["id"], f"{name} on the CPU", "cpu", at, length)
            else:
                name, what = _PHASES[EventKind(kind)]
                yield _span(pid, thread["id"], name, what, at, length, bytes=subject)
    rows = {name: k for k, name in enumerate(dict.fromkeys(name for name, *_ in part["cpu"]))}
    for name, k in rows.items():
        yield from _label("thread", pid, 1_000_000_000 + k, f"TensorFlow: {name}", 1000 + k)
    for name, op, start, end in part["cpu"]:
        yield _span(pid, 1_000_000_000 + rows[name], op, "cpu", start - zero, end - start)
    for name, when in part["marks"]:
        yield {"ph": "i", "pid": pid, "tid": 0, "name": name, "ts": round((when - zero) / 1e3, 3), "s": "p"}


def _work(row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {"engine on a card": row["engine"], "does": row["does"], "shape": row["shape"], "flops": row["flops"],
            "bytes": row["bytes"], "ops": row["ops"]}  # fmt: skip


def _card(
    part: dict[str, Any], does: Sequence[card_clock.Launched | card_clock.TimedTransfer], pid: int
) -> Iterator[dict[str, Any]]:
    used: set[str] = set()

    def row(name: str, more: int = 0) -> Iterator[dict[str, Any]]:
        known = f"{name} {more + 1}" if more else name
        if known not in used:
            used.add(known)
            tid = _tid(name, more)
            yield from _label("thread", pid, tid, known, tid)

    drawn = 0
    for each in does:
        at = each.at * 1e9
        if isinstance(each, card_clock.TimedTransfer):
            yield from row(each.row)
            kind = "NIC" if each.row == card_clock.WIRE else "DMA"
            yield _span(pid, _tid(each.row), each.name, kind, at, each.seconds * 1e9, bytes=each.nbytes)
            continue
        yield from row("launches")
        name, card = part["programs"].get(each.program, {"name": "a program"})["name"], each.card
        if card is None or card["why"]:
            why = card["why"] if card else "nothing is known of it any more"
            yield _span(pid, _tid("launches"), f"{name} is not predicted", "unpredicted", at, 0.0, why=why)
            continue
        about = {"both engines work (ms)": round(card["hidden"] * 1e3, 6)}
        if card["drawn"] < 1:
            about["units are drawn shorter by"] = round(1 - card["drawn"], 4)
        yield _span(pid, _tid("launches"), name, "launch", at, card["seconds"] * 1e9, **about)
        drawn += len(card["intervals"])
        if drawn <= MOST_INTERVALS:
            for x in card["intervals"]:
                yield from row(x["engine"])
                yield _span(pid, _tid(x["engine"]), x["name"], x["engine"], at + x["start"] * 1e9, x["seconds"] * 1e9,
                            op=x["op"], flops=x["flops"], bytes=x["nbytes"], bound=x["bound"],
                            bundle=card["bundles"][x["bundle"]]["name"], ops=x["ops"])  # fmt: skip
            for x, more in zip(card["bundles"], card_clock.bundle_rows(card["bundles"]), strict=True):
                yield from row("bundles", more)
                yield _span(pid, _tid("bundles", more), x["name"], "bundle", at + x["start"] * 1e9, x["seconds"] * 1e9)
            for x in card["use"]:
                for what, value in (("SRAM in bytes", x["sram"]), ("HBM in bytes", x["hbm"])):
                    yield {"ph": "C", "pid": pid, "name": what, "ts": round(at / 1e3 + x["at"] * 1e6, 6),
                           "args": {"in use": value}}  # fmt: skip


def _tid(row: str, more: int = 0) -> int:
    """A row's number, which is its place too. more: of the rows for bundles, which are the last."""
    return 1 + card_clock.ROWS.index(row) + more
