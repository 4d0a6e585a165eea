"""Counts the trips of a loop at compile time, by computing its known integers iteration by iteration.

So it is known how often a loop runs, whatever its condition is made of, and where in its lists it reads and writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from habana_tf.ir.constant_folding import constant
from habana_tf.ir.primitives import Node, Rows

MOST_TRIPS = 1 << 20
"""What runs more often is not followed."""


@dataclass
class TripCounts:
    """trips: how often the body runs. sequences: of nodes that were asked for and are known, the value in each
    iteration. values: of variables that are known, the same, and what they are behind the loop."""

    trips: int
    sequences: dict[Node, Any] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)


def count(
    condition: Node, inner: Mapping[int, Node], left: Mapping[int, Node], pops: Collection[int],
    known: Mapping[int, Any], asked: Sequence[Node],
) -> TripCounts | None:  # fmt: skip
    """None where the condition is not known, or is true for too long.

    inner: what each variable is in the body. left: what the values among them become. pops: the lists that each
    iteration takes the last element of. known: what is known when the loop begins.
    """
    now = dict(known)
    history: dict[int, list[Any]] = {k: [v] for k, v in known.items() if k in left}
    found: dict[Node, list[Any]] = {n: [] for n in asked}
    for t in range(MOST_TRIPS):
        fixed = {inner[k]: v[len(v) - 1 - t] if k in pops else v for k, v in now.items() if k not in pops or t < len(v)}
        goes_on = constant(condition, fixed)
        if goes_on is None:
            return None
        if not bool(goes_on):
            sequences = {n: np.array(v, n.dtype.numpy).reshape(t, *n.shape) for n, v in found.items()}
            return TripCounts(t, sequences, {k: np.stack(v) for k, v in history.items()})
        for node in list(found):
            value = constant(node, fixed)
            if value is None or value.dtype == object:  # or of sizes that are not
                del found[node]
            else:
                found[node].append(value)
        for k in [k for k in now if k in left]:
            value = constant(left[k], fixed)
            if value is None:
                del now[k], history[k]
            else:
                now[k] = value
                history[k].append(value)
    return None


def steps(sequence: Any | None) -> Rows | None:
    """(first, step) of positions that go on by one step."""
    if sequence is None:
        return None
    if len(sequence) < 2:
        return (int(sequence[0]) if len(sequence) else 0), 1
    start, step = int(sequence[0]), int(sequence[1]) - int(sequence[0])
    return (start, step) if (sequence == start + step * np.arange(len(sequence))).all() else None
