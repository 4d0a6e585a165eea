"""Records which programs a front end handed over whole, which ops it left to its CPU kernels, with the reason, and
where the user's program ends programs or has the host wait for one.

TensorFlow's graphs have records of their own, of what the graph pass made of them (`tensorflow.graph.report`). A front
end that records ops (PyTorch's) has no graph: a program has all ops that were recorded, and what no program can have
ran on the CPU when it was called. `placement_report()` shows both.
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
_MOST_ENDS = 1024
"""Lines that end programs which are remembered."""


@dataclass(frozen=True)
class ProgramRecord:
    """A program. ops: how many of each it has, most frequent first; scopes: the layers that most of them are of;
    updated: inputs that it writes new values over."""

    name: str
    framework: str
    ops: dict[str, int]
    scopes: tuple[str, ...]
    inputs: int
    outputs: int
    updated: int


@dataclass(frozen=True)
class CpuOp:
    """An op that ran on the CPU, for one reason. count: how often; layers, lines: those that called it, the first
    ones. nbytes: what a real card would copy to the host and back for all calls."""

    op: str
    framework: str
    reason: str
    count: int
    layers: tuple[str, ...]
    lines: tuple[str, ...] = ()
    nbytes: int = 0


@dataclass(frozen=True)
class HostOperands:
    """An op on HPU that read tensors of the host. count: how many of its calls; nbytes: that they copied; layers,
    lines: those that called it, the first ones."""

    op: str
    framework: str
    count: int
    nbytes: int
    layers: tuple[str, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgramEnd:
    """A line of the user's program that ends programs or reads a value of the card. what: what it does there; count:
    how often; programs: how many it ended, which ran then."""

    what: str
    line: str
    count: int
    programs: int


@dataclass(frozen=True)
class Traced:
    """Why a compiler of the framework made one more graph of a function. what: a graph break, or the same code for
    other arguments; why: in the framework's words; count: how often."""

    what: str
    why: str
    line: str
    count: int


@dataclass(frozen=True)
class Placements:
    """programs: the last ones of several ops; earlier: how many there were before these. ops: of all programs, how many
    of each. cpu: the most frequent first; copied: the ones with most bytes first. in_graphs: ops that placed graphs
    leave to the CPU, how many nodes of each. ends: the most frequent first; steps: of training, or without an optimizer
    those that `mark_step` ended. traced: the most frequent first."""

    programs: tuple[ProgramRecord, ...] = ()
    earlier: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    cpu: tuple[CpuOp, ...] = ()
    copied: tuple[HostOperands, ...] = ()
    in_graphs: Counter[str] = field(default_factory=Counter)
    ends: tuple[ProgramEnd, ...] = ()
    steps: int = 0
    traced: tuple[Traced, ...] = ()


_lock = threading.Lock()
_programs: deque[ProgramRecord] = deque()
_earlier = 0
_ops: Counter[str] = Counter()
_cpu: Counter[tuple[str, str, str]] = Counter()
_cpu_bytes: Counter[tuple[str, str, str]] = Counter()
_traced: Counter[tuple[str, str, str]] = Counter()
_places: dict[tuple[str, ...], tuple[dict[str, None], dict[str, None]]] = {}
"""Layers and lines."""
_copied: dict[tuple[str, str], tuple[int, int]] = {}
_in_graphs: Counter[str] = Counter()
_ends: dict[tuple[str, str], list[int]] = {}
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
        made = ProgramRecord(
            cluster.name, cluster.framework, dict(ops.most_common()), tuple(scopes), inputs, outputs, updated
        )
        _programs.append(made)
        if len(_programs) > MOST_PROGRAMS:
            _programs.popleft()
            _earlier += 1


def note_graph(on_cpu: Mapping[str, int]) -> None:
    """Adds the ops that a placed graph leaves to the CPU."""
    with _lock:
        _in_graphs.update(on_cpu)


def note_end(what: str, line: str, programs: int) -> None:
    """Counts that a line of the user's program ended so many programs, or read a value."""
    with _lock:
        if (what, line) in _ends or len(_ends) < _MOST_ENDS:
            known = _ends.setdefault((what, line), [0, 0])
            known[0] += 1
            known[1] += programs


def note_traced(what: str, why: str, line: str) -> None:
    """Counts one more graph of a function, see `Traced`."""
    with _lock:
        _traced[what, why, line] += 1


def note_step() -> None:
    """Counts a step."""
    global _steps
    with _lock:
        _steps += 1


def note_cpu_op(op: str, framework: str, reason: str, where: Callable[[], tuple[str, str]]) -> bool:
    """Counts an op that ran on the CPU; whether that is the first time, for this reason. where: says which layer the op
    is of, and which line called it; asked at the first calls only, because it may take longer than the op."""
    key = op, framework, reason
    with _lock:
        _cpu[key] += 1
        _ask(key, _cpu[key], where)
        return _cpu[key] == 1


def note_cpu_bytes(op: str, framework: str, reason: str, nbytes: int) -> None:
    """Adds what a real card would copy for a call of `note_cpu_op`."""
    with _lock:
        _cpu_bytes[op, framework, reason] += nbytes


def note_host_operand(op: str, framework: str, nbytes: int, where: Callable[[], tuple[str, str]]) -> bool:
    """Counts a call of an op on HPU for which so many bytes of tensors of the host were copied; whether it is the
    first. where: as for `note_cpu_op`."""
    key = op, framework
    with _lock:
        count, before = _copied.get(key, (0, 0))
        _copied[key] = count + 1, before + nbytes
        _ask(key, count + 1, where)
        return not count


def _ask(key: tuple[str, ...], count: int, where: Callable[[], tuple[str, str]]) -> None:
    known = _places.setdefault(key, ({}, {}))
    if count <= MOST_ASKED and any(len(names) < MOST_LAYERS for names in known):
        for names, name in zip(known, where(), strict=True):
            if name and len(names) < MOST_LAYERS:
                names[name] = None


def placements() -> Placements:
    """All that is known now."""
    with _lock:
        cpu = tuple(
            CpuOp(*key, n, tuple(_places[key][0]), tuple(_places[key][1]), _cpu_bytes[key])
            for key, n in _cpu.most_common()
        )
        most = sorted(_copied.items(), key=lambda item: -item[1][1])
        copied = tuple(
            HostOperands(*key, *counts, tuple(_places[key][0]), tuple(_places[key][1])) for key, counts in most
        )
        ends = [ProgramEnd(*key, *counts) for key, counts in _ends.items()]
        ends.sort(key=lambda end: (-end.programs, -end.count))
        return Placements(
            tuple(_programs),
            _earlier,
            Counter(_ops),
            cpu,
            copied,
            Counter(_in_graphs),
            tuple(ends),
            _steps,
            tuple(Traced(*key, n) for key, n in _traced.most_common()),
        )


def reset() -> None:
    """Forgets all."""
    global _earlier, _steps
    with _lock:
        _programs.clear()
        for counts in (_ops, _cpu, _cpu_bytes, _traced, _places, _copied, _in_graphs, _ends):
            counts.clear()
        _earlier = _steps = 0
