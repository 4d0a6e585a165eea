"""A part as an XSpace, the format of TensorFlow's profiler, for TensorBoard's profile plugin.

It has three planes:
- The HPU as recorded. TensorBoard's tools know devices only by the prefixes "/device:GPU:" and "/device:TPU:"; so it is
  called "/device:GPU:0 is /device:HPU:0 ...". It has a line per thread of the host, with launches, their kernel calls,
  copies and compilations. A kernel call has the name and type of its op (`tf_op`), by which overview page and op
  statistics count it.
- "/device:GPU:1 is ... as predicted": the launches, a line per engine of the card, and its bundles, on a clock of their
  own (`card_clock`). Its events have no `tf_op` and belong to no step, so that the tools draw but do not count them.
- "/host:CUPTI", which TensorFlow merges into the threads of its own host plane: the launches once more, so that what
  a launch did belongs to the program's step in which it was made (`correlation_id`).

Format: xplane.proto of TensorFlow; field numbers stand beside their meaning in the functions below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from habana_tf.card.timeline import card_clock
from habana_tf.card.timeline.part import by_call
from habana_tf.card.timeline.protobuf import integer, message, text
from habana_tf.card.timeline.record import EventKind

HPU_PLANE = "/device:GPU:0 is /device:HPU:0"
CARD_PLANE = "/device:GPU:1 is "
HOST_PLANE = "/host:CUPTI"

_NAMES = {
    EventKind.TO_CARD: "MEMCPYHtoD",  # the tools know copies by these names
    EventKind.FROM_CARD: "MEMCPYDtoH",
    EventKind.ON_CARD: "MEMCPYDtoD",
    EventKind.GRAPH_PASS: "graph pass",
    EventKind.SUM: "sum with other ranks",
}


class _Plane:
    """A plane while it is made: names of events and of stats have numbers in it."""

    def __init__(self, id_: int, name: str) -> None:
        self._id, self._name = id_, name
        self._events: dict[object, tuple[int, bytes]] = {}
        self._stats: dict[str, int] = {}
        self._lines: list[bytes] = []
        self._facts: list[bytes] = []

    def stat(self, name: str, value: int | str) -> bytes:
        """The body of an XStat: metadata_id = 1, int64_value = 4, ref_value = 7: text by its number among the names."""
        known = integer(7, self._number(value)) if isinstance(value, str) else integer(4, value)
        return integer(1, self._number(name)) + known

    def _number(self, name: str) -> int:
        return self._stats.setdefault(name, len(self._stats) + 1)

    def fact(self, name: str, value: int | str) -> None:
        self._facts.append(self.stat(name, value))

    def kind(self, key: object, name: str, **stats: int | str) -> int:
        """The number of a kind of event; stats: those that all events of it have."""
        if key not in self._events:
            number = len(self._events) + 1
            # XEventMetadata: id = 1, name = 2, display_name = 4, stats = 5
            about = (message(5, self.stat(*each)) for each in stats.items())
            self._events[key] = number, b"".join((integer(1, number), text(2, name), text(4, name), *about))
        return self._events[key][0]

    def event(self, kind: int, offset: int, duration: int, **stats: int | str) -> bytes:
        """The body of an XEvent; picoseconds: metadata_id = 1, offset_ps = 2, duration_ps = 3, stats = 4."""
        about = (message(4, self.stat(*each)) for each in stats.items())
        return b"".join((integer(1, kind), integer(2, offset), integer(3, duration), *about))

    def line(self, id_: int, name: str, began: int, events: Iterable[bytes]) -> None:
        """XLine: id = 1, name = 2, timestamp_ns = 3 (since 1970), events = 4."""
        self._lines.append(
            b"".join((integer(1, id_), text(2, name), integer(3, began), *(message(4, e) for e in events)))
        )

    def body(self) -> bytes:
        """XPlane: id = 1, name = 2, lines = 3, event_metadata = 4, stat_metadata = 5, stats = 6."""
        return b"".join(
            (
                integer(1, self._id),
                text(2, self._name),
                *(message(3, line) for line in self._lines),
                *(message(4, integer(1, n), message(2, body)) for n, body in self._events.values()),
                *(
                    message(5, integer(1, n), message(2, integer(1, n), text(2, name)))
                    for name, n in self._stats.items()
                ),
                *(message(6, fact) for fact in self._facts),
            )
        )


def space(part: dict[str, Any], bandwidth: int, memory: int, wide: bool = True) -> bytes:
    """The serialized XSpace of a part. bandwidth: of the card's HBM, bytes per second; memory: bytes. wide:
    whether TensorFlow numbers threads by 64 bits and not by the lower 32."""
    began = part["begin"] + part["clock"]["realtime"] - part["clock"]["monotonic"]
    planes = [_hpu(part, began, bandwidth, memory), _card(part, began), _host(part, began, wide)]
    return b"".join(message(1, plane.body()) for plane in planes)


def _correlated(part: dict[str, Any]) -> list[tuple[dict[str, Any], list[tuple[int, Sequence[int]]]]]:
    """Per thread its events with the number of the launch that they are in; 0 outside of launches."""
    out = []
    number = 0
    for thread in part["threads"]:
        mine: list[tuple[int, Sequence[int]]] = []
        until = -1
        for event in sorted(thread["events"], key=lambda e: (e[0], -e[1])):  # a launch before its calls
            if event[3] == EventKind.LAUNCH:
                number += 1
                until = event[1]
            mine.append((number if event[0] < until else 0, event))
        out.append((thread, mine))
    return out


def _hpu(part: dict[str, Any], began: int, bandwidth: int, memory: int) -> _Plane:
    plane = _Plane(1, f"{HPU_PLANE}, simulated {part['chip']}")
    plane.fact("device_vendor", "Habana Labs (simulated)")
    plane.fact("memory_bandwidth", bandwidth)
    plane.fact("memory_size", memory)
    rows = {number: by_call(program["kernels"]) for number, program in part["programs"].items()}
    for thread, events in _correlated(part):
        made = []
        for launch, (start, end, subject, kind, detail, threads, _) in events:
            program = part["programs"].get(str(subject), {"name": "a program"})
            stats: dict[str, int | str] = {"threads": threads}
            if launch:
                stats |= {"correlation_id": launch, "device_id": 0}
            if kind == EventKind.LAUNCH:
                number = plane.kind(("launch", subject), f"launch {program['name']}")
            elif kind == EventKind.KERNEL_CALL:
                row = rows.get(str(subject), {}).get(detail)
                number = _kernel(plane, subject, detail, row)
                if row is not None:
                    stats["tf_op"] = f"{row['name']}:{row['op']}"
            elif kind == EventKind.RESOLVE:
                number = plane.kind(("resolve", subject), f"{program.get('how', 'forgotten')} {program['name']}")
            elif kind == EventKind.CPU_OP:
                number = plane.kind(("cpu", subject), f"{part['ops'][str(subject)]} on the CPU")
            else:
                number = plane.kind(kind, _NAMES[EventKind(kind)])
                stats["bytes"] = subject
            made.append(plane.event(number, (start - part["begin"]) * 1000, (end - start) * 1000, **stats))
        plane.line(thread["id"], f"{thread['name']} {thread['id']}", began, made)
    return plane


def _kernel(plane: _Plane, program: int, call: int, row: dict[str, Any] | None) -> int:
    key = "kernel", program, call
    if row is None:
        return plane.kind(key, f"kernel call {call}")
    return plane.kind(
        key, row["name"], flops=row["flops"] // row["times"], bytes_accessed=row["bytes"] // row["times"],
        engine=row["engine"], ops=", ".join(row["ops"]),
    )  # fmt: skip


def _card(part: dict[str, Any], began: int) -> _Plane:
    plane = _Plane(2, f"{CARD_PLANE}{part['chip']} as predicted, HPU:0 in the card's own clock")
    lines: dict[tuple[int, str], list[bytes]] = {}

    def add(row: str, number: int, at: float, seconds: float, more: int = 0, **stats: int | str) -> None:
        known = card_clock.ROWS.index(row) + more, f"{row} {more + 1}" if more else row
        lines.setdefault(known, []).append(plane.event(number, round(at * 1e12), round(seconds * 1e12), **stats))

    for each in card_clock.clocks([part])[0]:
        if isinstance(each, card_clock.TimedTransfer):
            number = plane.kind(("transfer", each.name), each.name)
            add(each.row, number, each.at, each.seconds, bytes=each.nbytes)
            continue
        name, card = part["programs"].get(each.program, {"name": "a program"})["name"], each.card
        if card is None or card["why"]:
            number = plane.kind(("launch", each.program), f"launch {name}, which is not predicted")
            add("launches", number, each.at, 0.0)
            continue
        add("launches", plane.kind(("launch", each.program), f"launch {name}"), each.at, card["seconds"])
        for k, x in enumerate(card["intervals"]):
            facts = {"flops": x["flops"], "bytes_accessed": x["nbytes"], "bound by": x["bound"]}
            facts["bundle"] = card["bundles"][x["bundle"]]["name"]
            number = plane.kind(("interval", each.program, k), x["name"], **facts)
            add(x["engine"], number, each.at + x["start"], x["seconds"])
        for x, more in zip(card["bundles"], card_clock.bundle_rows(card["bundles"]), strict=True):
            number = plane.kind(("bundle", each.program, x["name"]), f"bundle {x['name']}")
            add("bundles", number, each.at + x["start"], x["seconds"], more)
    for k, ((_, name), events) in enumerate(sorted(lines.items())):
        plane.line(k + 1, name, began, events)
    return plane


def _host(part: dict[str, Any], began: int, wide: bool) -> _Plane:
    plane = _Plane(3, HOST_PLANE)
    for thread, events in _correlated(part):
        made = []
        for launch, (start, end, subject, kind, *_) in events:
            if kind == EventKind.LAUNCH:
                name = part["programs"].get(str(subject), {"name": "a program"})["name"]
                number = plane.kind(subject, f"launch {name}")
                stats = {"correlation_id": launch, "device_id": 0}
                made.append(plane.event(number, (start - part["begin"]) * 1000, (end - start) * 1000, **stats))
        if made:
            number = thread["hash"] if wide else thread["hash"] & 0xFFFFFFFF
            plane.line(number, thread["name"], began, made)
    return plane
