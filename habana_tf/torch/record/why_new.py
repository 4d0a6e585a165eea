"""Says why a program has to be compiled: how its recording differs from the most similar earlier one.

It has the same ops on other sizes, with another literal or with other results kept; or some ops in one place of it are
others. Where no earlier recording has half of the ops in common, it is another program, and nothing is said. Asked once
per program, before it is compiled.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from habana_tf.reports.layer_names import layer
from habana_tf.torch.record.program import RecordedArgument, Recording

MOST = 64
"""Recordings that are remembered, the last ones."""
_SHOWN = 3
"""Changes that are told, and ops that are named."""


class Recordings:
    """The recordings of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: deque[tuple[Recording, Counter[str]]] = deque(maxlen=MOST)

    def because(self, new: Recording) -> str:
        """How a recording differs from the nearest earlier one; empty where none is near, and for one op by itself, of
        which eager mode has many. Others are remembered."""
        if len(new.ops) < 2:
            return ""
        ops = Counter(op[0] for op in new.ops)
        with self._lock:
            known = list(self._known)
            self._known.append((new, ops))
        found, best = None, 0.5
        for old, counts in reversed(known):
            common = (ops & counts).total() / max(ops.total(), counts.total())
            if common > best or (found is None and common == best):
                found, best = old, common
        return "" if found is None else difference(found, new)


def difference(old: Recording, new: Recording) -> str:
    """The change from one recording to another, in a line for people."""
    before, after = ([op[0] for op in r.ops] for r in (old, new))
    if before != after:
        return _ops(old, new)
    for found in (_sizes(old, new), _literals(old, new), _views(old, new)):
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            return ", ".join(found[:_SHOWN]) + more
    fewer, more_results = (len(set(a) - set(b)) for a, b in ((old.outputs, new.outputs), (new.outputs, old.outputs)))
    if fewer or more_results:
        return f"other results are kept: {more_results} that were not, {fewer} that were are gone"
    return "results are written over other inputs"


def _ops(old: Recording, new: Recording) -> str:
    before, after = ([op[0] for op in r.ops] for r in (old, new))
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    gone, come = before[first : len(before) - last], after[first : len(after) - last]
    where = _named(new, first - 1) if first else ""
    place = f"after {where}" if where else "at the beginning"
    if not gone:
        return f"{_list(come)} appeared {place}"
    if not come:
        return f"{_list(gone)} {'is' if len(gone) == 1 else 'are'} gone {place}"
    return f"{_list(come)} in the place of {_list(gone)} {place}"


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((k for k, (x, y) in enumerate(zip_longest(a, b)) if x != y), len(a))


def _list(ops: Sequence[str]) -> str:
    counts = [op if n == 1 else f"{n} {op}" for op, n in Counter(ops).most_common()]
    more = f" and {len(counts) - _SHOWN} more kinds of op" if len(counts) > _SHOWN else ""
    return ", ".join(counts[:_SHOWN]) + more


def _named(of: Recording, index: int) -> str:
    """An op for people: its overload, its layer and the line that called it, where these are known."""
    scope = of.scopes[index] if index < len(of.scopes) else ""
    line = of.lines[index] if index < len(of.lines) else ""
    return of.ops[index][0] + (f" in {layer(f'{scope}/')}" if scope else "") + (f" at {line}" if line else "")


def _sizes(old: Recording, new: Recording) -> list[str]:
    found = []
    for k, ((shape, kind), (other, another)) in enumerate(zip(old.inputs, new.inputs, strict=False)):
        if kind != another:
            found.append(f"{_input(new, k)}: {kind} -> {another}")
        elif len(shape) != len(other):
            found.append(f"{_input(new, k)}: {list(shape)} -> {list(other)}")
        else:
            pairs = enumerate(zip(shape, other, strict=True))
            found += [f"{_input(new, k)} axis {axis}: {a} -> {b}" for axis, (a, b) in pairs if a != b]
    if len(old.inputs) != len(new.inputs):
        found.append(f"{len(old.inputs)} inputs -> {len(new.inputs)}")
    return found


def _input(of: Recording, k: int) -> str:
    for index, op in enumerate(of.ops):
        if any(a[0] == "value" and a[1] == (-1, k) for a in _parts(op[1])):
            return f"input {k} of {_named(of, index)}"
    return f"input {k}"


def _parts(arguments: Sequence[RecordedArgument]) -> Iterator[RecordedArgument]:
    for a in arguments:
        if a[0] == "list":
            yield from _parts(a[1])
        elif a[0] == "named":
            yield from _parts([a[2]])
        else:
            yield a


def _literals(old: Recording, new: Recording) -> list[str]:
    found = []
    for index, (a, b) in enumerate(zip(old.ops, new.ops, strict=True)):
        for x, y in zip_longest(_parts(a[1]), _parts(b[1])):
            if x != y and (x is None or y is None or x[0] != "value" or y[0] != "value"):
                found.append(f"a number of {_named(new, index)}: {_said(x)} -> {_said(y)}")
    return found


def _said(argument: RecordedArgument | None) -> Any:
    if argument is None:
        return "none"
    return argument[1] if argument[0] == "literal" else argument[0]


def _views(old: Recording, new: Recording) -> list[str]:
    return [
        f"{_named(new, index)} reads or gives other sizes, views or types"
        for index, (a, b) in enumerate(zip(old.ops, new.ops, strict=True))
        if a != b
    ]
