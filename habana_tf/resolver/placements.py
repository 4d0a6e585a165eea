"""Records which programs a front end handed over whole, which ops the host has a part in, with the reason, and where
the user's program ends programs or has the host wait for one.

A front end that records ops (PyTorch's) has no graph: a program has all ops that were recorded, and what no program can
have ran on the CPU when it was called. `placement_report` prints what is recorded here. A front end with graphs adds
what its pass made of them (`tensorflow.graph.report`), in the same records where these fit.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from habana_tf.cluster.cluster import Cluster

MOST_PROGRAMS = 256
"""Programs of several ops that are remembered one by one, the last ones; earlier ones are counted."""
MOST_LAYERS = 8
"""Layers, and lines, that are remembered for an op and a reason."""
MOST_ASKED = 256
"""Calls of an op that are asked for their layer and line."""
_MOST_LINES = 1024
"""Lines that end programs, or have graphs made anew, which are remembered."""
HOST_OPERAND = "it reads a tensor of the host"


@dataclass(frozen=True)
class Program:
    """Ops that run together. ops: how many of each it has, most frequent first; updated: inputs that it writes new
    values over; scopes: the layers that most of them are of."""

    name: str
    ops: dict[str, int]
    inputs: int
    outputs: int
    updated: int = 0
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpCalls:
    """An op that ran on the CPU, or read tensors of the host, for one reason. count: how often, 0 where that is not
    known; nbytes: what a real card would copy between itself and the host for all calls; layers, lines: those that
    called it, the first ones."""

    op: str
    reason: str
    count: int = 0
    nbytes: int = 0
    layers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """What a line of the user's program does, and how often: it ends so many programs, which ran then, or reads a value
    of the card; or it has a compiler of the framework make one more graph of a function. why: in its words."""

    what: str
    line: str
    why: str
    count: int
    programs: int


@dataclass(frozen=True)
class Placements:
    """programs: the last ones of several ops; earlier: how many there were before these. ops: of all programs, how many
    of each. cpu: the ops that ran on the CPU, the most frequent first; copied: those on HPU that read tensors of the
    host, the ones with most bytes first. in_graphs: ops that placed graphs leave to the CPU, how many nodes of each.
    ends: lines that end programs or read values, those that end most first; steps: of training, or without an optimizer
    those that `mark_step` ended. traced: lines that had graphs made anew, the most frequent first."""

    programs: tuple[Program, ...] = ()
    earlier: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    cpu: tuple[OpCalls, ...] = ()
    copied: tuple[OpCalls, ...] = ()
    in_graphs: Counter[str] = field(default_factory=Counter)
    ends: tuple[Line, ...] = ()
    steps: int = 0
    traced: tuple[Line, ...] = ()


@dataclass
class _Calls:
    """Calls of one op for one reason, so far."""

    count: int = 0
    nbytes: int = 0
    layers: dict[str, None] = field(default_factory=dict)
    lines: dict[str, None] = field(default_factory=dict)


_lock = threading.Lock()
_programs: deque[Program] = deque()
_earlier = 0
_ops: Counter[str] = Counter()
_calls: dict[tuple[str, str], _Calls] = {}
_in_graphs: Counter[str] = Counter()
_lines: dict[tuple[str, str, str], list[int]] = {}
_steps = 0


def note_program(cluster: Cluster, scopes: Sequence[str] = ()) -> None:
    """Remembers a program that a front end has handed over."""
    global _earlier
    ops = Counter(node.op for node in cluster.nodes)
    with _lock:
        _ops.update(ops)
        if len(cluster.nodes) < 2:
            return
        updated = sum(arg.variable for arg in cluster.results)
        inputs, outputs = len(cluster.inputs), len(cluster.results)
        _programs.append(Program(cluster.name, dict(ops.most_common()), inputs, outputs, updated, tuple(scopes)))
        if len(_programs) > MOST_PROGRAMS:
            _programs.popleft()
            _earlier += 1


def note_graph(on_cpu: Mapping[str, int]) -> None:
    """Adds the ops that a placed graph leaves to the CPU."""
    with _lock:
        _in_graphs.update(on_cpu)


def note_line(what: str, line: str, why: str = "", programs: int = 0) -> None:
    """Counts what a line of the user's program did, see `Line`."""
    with _lock:
        key = what, line, why
        if key in _lines or len(_lines) < _MOST_LINES:
            known = _lines.setdefault(key, [0, 0])
            known[0] += 1
            known[1] += programs


def note_step() -> None:
    """Counts a step."""
    global _steps
    with _lock:
        _steps += 1


def note_call(op: str, reason: str, where: Callable[[], tuple[str, str]], nbytes: int = 0) -> bool:
    """Counts a call of an op, see `OpCalls`; whether it is the first for this reason. where: says which layer the op is
    of, and which line called it; asked at the first calls only, because it may take longer than the op."""
    with _lock:
        known = _calls.setdefault((op, reason), _Calls())
        known.count += 1
        known.nbytes += nbytes
        places = known.layers, known.lines
        if known.count <= MOST_ASKED and any(len(names) < MOST_LAYERS for names in places):
            for names, name in zip(places, where(), strict=True):
                if name and len(names) < MOST_LAYERS:
                    names[name] = None
        return known.count == 1


def placements() -> Placements:
    """All that is known now."""
    with _lock:
        calls = [OpCalls(*key, c.count, c.nbytes, tuple(c.layers), tuple(c.lines)) for key, c in _calls.items()]
        lines = sorted((Line(*key, *counts) for key, counts in _lines.items()), key=lambda e: (-e.programs, -e.count))
        return Placements(
            tuple(_programs),
            _earlier,
            Counter(_ops),
            tuple(sorted((c for c in calls if c.reason != HOST_OPERAND), key=lambda c: -c.count)),
            tuple(sorted((c for c in calls if c.reason == HOST_OPERAND), key=lambda c: -c.nbytes)),
            Counter(_in_graphs),
            tuple(line for line in lines if not line.why),
            _steps,
            tuple(line for line in lines if line.why),
        )


def reset() -> None:
    """Forgets all."""
    global _earlier, _steps
    with _lock:
        for known in (_programs, _ops, _calls, _in_graphs, _lines):
            known.clear()
        _earlier = _steps = 0
