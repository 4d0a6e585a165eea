"""Records which programs a front end handed over whole, and which ops it left to its CPU kernels, with the reason.

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
"""Layers that are remembered for an op and a reason."""
MOST_ASKED = 256
"""Calls of an op that are asked for their layer."""


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
    """An op that ran on the CPU, for one reason. count: how often; layers: those that called it, the first ones."""

    op: str
    framework: str
    reason: str
    count: int
    layers: tuple[str, ...]


@dataclass(frozen=True)
class HostOperands:
    """An op on HPU that read tensors of the host. count: how many of its calls; nbytes: that they copied; layers: those
    that called it, the first ones."""

    op: str
    framework: str
    count: int
    nbytes: int
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Placements:
    """programs: the last ones of several ops; earlier: how many there were before these. ops: of all programs, how many
    of each. cpu: the most frequent first; copied: the ones with most bytes first. in_graphs: ops that placed graphs
    leave to the CPU, how many nodes of each."""

    programs: tuple[ProgramRecord, ...] = ()
    earlier: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    cpu: tuple[CpuOp, ...] = ()
    copied: tuple[HostOperands, ...] = ()
    in_graphs: Counter[str] = field(default_factory=Counter)


_lock = threading.Lock()
_programs: deque[ProgramRecord] = deque()
_earlier = 0
_ops: Counter[str] = Counter()
_cpu: Counter[tuple[str, str, str]] = Counter()
_layers: dict[tuple[str, ...], dict[str, None]] = {}
_copied: dict[tuple[str, str], tuple[int, int]] = {}
_in_graphs: Counter[str] = Counter()


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


def note_cpu_op(op: str, framework: str, reason: str, layer: Callable[[], str] = str) -> bool:
    """Counts an op that ran on the CPU; whether that is the first time, for this reason. layer: says which layer the op
    is of; asked at the first calls only, because it may take longer than the op."""
    key = op, framework, reason
    with _lock:
        _cpu[key] += 1
        _ask(key, _cpu[key], layer)
        return _cpu[key] == 1


def note_host_operand(op: str, framework: str, nbytes: int, layer: Callable[[], str] = str) -> bool:
    """Counts a call of an op on HPU for which so many bytes of tensors of the host were copied; whether it is the
    first. layer: as for `note_cpu_op`."""
    key = op, framework
    with _lock:
        count, before = _copied.get(key, (0, 0))
        _copied[key] = count + 1, before + nbytes
        _ask(key, count + 1, layer)
        return not count


def _ask(key: tuple[str, ...], count: int, layer: Callable[[], str]) -> None:
    known = _layers.setdefault(key, {})
    if count <= MOST_ASKED and len(known) < MOST_LAYERS and (name := layer()):
        known[name] = None


def placements() -> Placements:
    """All that is known now."""
    with _lock:
        cpu = tuple(CpuOp(*key, n, tuple(_layers[key])) for key, n in _cpu.most_common())
        most = sorted(_copied.items(), key=lambda item: -item[1][1])
        copied = tuple(HostOperands(*key, *counts, tuple(_layers[key])) for key, counts in most)
        return Placements(tuple(_programs), _earlier, Counter(_ops), cpu, copied, Counter(_in_graphs))


def reset() -> None:
    """Forgets all."""
    global _earlier
    with _lock:
        _programs.clear()
        for counts in (_ops, _cpu, _layers, _copied, _in_graphs):
            counts.clear()
        _earlier = 0
