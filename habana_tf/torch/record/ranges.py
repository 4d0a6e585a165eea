"""Makes one cluster of recordings that differ in sizes only, so that a step has one recipe for all sizes that it meets.

The first recording of a structure (see `sizes`) becomes a cluster for its sizes. When another one of the same structure
comes, the numbers that differ between them become entries of a vector, `sizes`, which is an input of the cluster;
numbers that equal each other in all these recordings share an entry. From there on it is a cluster whose sizes change,
as any: the resolver (`resolver.ranged`) compares the vectors that it met, and compiles a recipe over symbols, or says
why it cannot.

    batch 64   mm [64, 8] x [8, 4]     torch_a, for these sizes
    batch 29   mm [29, 8] x [8, 4]     torch_b: mm [size 0, 8] x [8, 4], met (64,) and (29,): a recipe over s0
    batch 17   mm [17, 8] x [8, 4]     torch_b again

A recording belongs to such a cluster if all numbers outside of the vector are the same, and those that share an entry
are equal. Recordings that differ in the size of a weight are of different models, and never one cluster.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from habana_tf import settings
from habana_tf.cluster.signature import MOST_NUMBERS, Signature
from habana_tf.ir.dtypes import DType
from habana_tf.torch.record.program import SIZE, Recording, TorchCluster, cluster_of, signature
from habana_tf.torch.record.sizes import numbers_of, replaced

MOST_STRUCTURES = 2048
"""Structures that are remembered, those met last."""
MOST_MET = 4
"""Recordings of a structure that are compared with a new one, the last ones."""
MOST_CLUSTERS = 8
"""Clusters over sizes of one structure, those used last."""

Numbers = NDArray[np.int64]
TensorMet = tuple[int, tuple[int, ...], bytes | None]


@dataclass
class _Sized:
    """A cluster over sizes. entries: for each number of a recording its entry in the vector, -1 where it is the one in
    `fixed`. first: for each entry a number of the recording that gives its value."""

    cluster: TorchCluster
    entries: Numbers
    fixed: Numbers
    first: Numbers

    def value(self, numbers: Numbers) -> Numbers | None:
        """The vector for a recording with these numbers; None where it does not belong to this cluster."""
        value = numbers[self.first]
        expected = np.where(self.entries >= 0, value[self.entries], self.fixed)
        return value if np.array_equal(expected, numbers) else None


@dataclass
class _Structure:
    """What is known of a structure. met: the numbers of its last recordings, those of the weights' shapes included.
    sized: its clusters over sizes."""

    met: list[Numbers] = field(default_factory=list)
    sized: list[_Sized] = field(default_factory=list)


class Structures:
    """The structures that this process has recorded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, _Structure] = OrderedDict()

    def cluster(
        self, recording: Recording, weights: Callable[[], Collection[int]]
    ) -> tuple[TorchCluster, list[TensorMet], Numbers | None]:
        """The cluster of a recording, the signature of a launch, and the vector of sizes, None where the cluster is for
        these sizes only. Remembers the recording. weights: gives the numbers of inputs that are weights; called only
        where sizes differ."""
        met = signature(recording)
        if not settings.TF_ENABLE_DYNAMIC_SHAPES.get():
            return cluster_of(recording), met, None
        form, found, arguments = numbers_of(recording)
        numbers = np.array(found, np.int64)
        key = hashlib.sha256(form.computed()).digest()
        with self._lock:
            known = self._known.setdefault(key, _Structure())
            self._known.move_to_end(key)
            if len(self._known) > MOST_STRUCTURES:
                self._known.popitem(last=False)
            made = self._known_or_new(known, recording, numbers, np.array(arguments, bool), weights)
            if not any(np.array_equal(numbers, m) for m in known.met):
                known.met = [*known.met, numbers][-MOST_MET:]
        if not isinstance(made, _Sized):
            cluster = cluster_of(recording)
            cluster.alone = made
            return cluster, met, None
        value = made.value(numbers)
        assert value is not None
        return made.cluster, [*met, (DType.I64.number, value.shape, value.tobytes())], value

    def _known_or_new(
        self, known: _Structure, recording: Recording, numbers: Numbers, arguments: NDArray[np.bool_],
        weights: Callable[[], Collection[int]],
    ) -> _Sized | str:  # fmt: skip
        """The cluster over sizes that a recording belongs to; or why it belongs to none, empty where it is the first
        one."""
        for sized in reversed(known.sized):
            if sized.value(numbers) is not None:
                known.sized = [*(s for s in known.sized if s is not sized), sized]
                return sized
        others = [m for m in known.met if not np.array_equal(m, numbers)]
        if not others:
            return ""
        own = _own(recording, weights) if _shapes_differ(recording, numbers, others) else ()
        fixed = _of_inputs(recording, own)
        kin = [m for m in others if _kin(m, numbers, fixed, arguments)]
        if not kin:
            return ""
        made = _sized(recording, numbers, kin)
        if isinstance(made, _Sized):
            known.sized = [*known.sized, made][-MOST_CLUSTERS:]
        return made


def _shapes_differ(recording: Recording, numbers: Numbers, others: Sequence[Numbers]) -> bool:
    """Whether inputs have other shapes than in earlier recordings."""
    count = sum(len(shape) for shape, _ in recording.inputs)
    return any((numbers[:count] != m[:count]).any() for m in others)


def _own(recording: Recording, weights: Callable[[], Collection[int]]) -> Collection[int]:
    """The inputs whose sizes belong to the model: weights, and what is updated as weights are. Of an op by itself only
    those that came as parameters: to look for the weights of the process takes as long as compiling two such ops."""
    if len(recording.ops) == 1:
        return recording.parameters
    return {*weights(), *(k for k in recording.updates if k >= 0)}


def _of_inputs(recording: Recording, inputs: Collection[int]) -> NDArray[np.intp]:
    """Which numbers are of the shapes of these inputs."""
    ends = np.cumsum([0, *(len(shape) for shape, _ in recording.inputs)])
    places = [np.arange(ends[k], ends[k + 1]) for k in sorted(inputs)]
    return np.concatenate([*places, np.arange(0)]).astype(np.intp)


def _kin(a: Numbers, b: Numbers, own: NDArray[np.intp], arguments: NDArray[np.bool_]) -> bool:
    """Whether the sizes of two recordings may be of one range. Numbers that differ have to be above 0 and not of a
    weight's shape; an argument has to change as some size of a tensor did, because others mean something else, such as
    an axis or a distance."""
    differ = a != b
    if differ[own].any() or not ((a[differ] > 0).all() and (b[differ] > 0).all()):
        return False
    of_arguments, of_tensors = (
        set(zip(a[places].tolist(), b[places].tolist(), strict=True))
        for places in (differ & arguments, differ & ~arguments)
    )
    return of_arguments <= of_tensors


def _sized(recording: Recording, numbers: Numbers, kin: list[Numbers]) -> _Sized | str:
    """The cluster over the sizes that differ between recordings; or why there is none."""
    rows = np.stack([*kin, numbers])
    differ = np.flatnonzero((rows != rows[-1]).any(0))
    columns, first, entry = np.unique(rows[:, differ], axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    if columns.shape[1] > MOST_NUMBERS:
        return (
            f"not for a range: {columns.shape[1]} sizes change, each in its own way; a range has at most {MOST_NUMBERS}"
        )
    entries = np.full(len(numbers), -1, np.int64)
    entries[differ] = np.argsort(order)[entry.reshape(-1)]
    places = differ[first[order]]
    at = iter(entries.tolist())

    def visit(n: int, argument: bool) -> int | tuple[str, int]:
        k = next(at)
        return n if k < 0 else (SIZE, k)

    form = replaced(recording, visit)
    cluster = cluster_of(
        Recording(form.inputs, form.floats, form.integers, form.ops, form.outputs, form.updates, recording.scopes,
                  len(places), recording.parameters, recording.lines)
    )  # fmt: skip
    sized = _Sized(cluster, entries, numbers, places)
    cluster.earlier = [_signature(recording, m, m[places]) for m in kin]
    return sized


def _signature(recording: Recording, numbers: Numbers, value: Numbers) -> Signature:
    """The signature of the cluster over sizes that an earlier recording with these numbers has."""
    shapes: list[tuple[int, ...]] = []
    at = 0
    for shape, _ in recording.inputs:
        shapes.append(tuple(numbers[at : at + len(shape)].tolist()))
        at += len(shape)
    shapes += [(n,) for n, _ in recording.numbers()]
    return Signature.of([*shapes, value.shape], [*[None] * len(shapes), value])
