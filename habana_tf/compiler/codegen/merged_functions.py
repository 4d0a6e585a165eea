"""Merges generated functions that differ in constants only into one with parameters.

Stacking (or unstacking) 64 tensors is 64 kernels, each a copy to another offset:

    k1: ... add nsw i64 %v6, 128  ...            k1, with 128:   %c0 = load i64 (the first constant)
    k2: ... add nsw i64 %v6, 256  ...     ->     k1, with 256:   ... add nsw i64 %v6, %c0 ...
    k3: ... add nsw i64 %v6, 384  ...            k1, with 384:

Parameters are the constants that are added to indices. A call passes them instead of the values of symbolic extents, so
only functions that read none of those are merged. Common constants stay in the code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.compiler.costs import MERGED_CHARACTERS, MERGED_FUNCTIONS

_NUMBER = re.compile(r"(add nsw i64 %v\d+, |getelementptr inbounds \w+, ptr %v\d+, i64 )(-?\d+)$", re.MULTILINE)
_ENTRY = "entry:\n"


@dataclass(frozen=True)
class FunctionShape:
    """A function's body without its constants, and these in order; the whole body and no constants if it is not to
    merge."""

    text: str
    numbers: tuple[int, ...]


def shape(body: str) -> FunctionShape:
    """The shape of a function's body (its text from the parameters on)."""
    if len(body) > MERGED_CHARACTERS or "ptr %dims" in body:
        return FunctionShape(body, ())
    numbers = tuple(int(found[2]) for found in _NUMBER.finditer(body))
    return FunctionShape(_NUMBER.sub(r"\1", body), numbers)


def merge(bodies: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """(body, constants) of each of some functions of the same shape; a shared body if there are enough of them."""
    numbers = [shape(body).numbers for body in bodies]
    if len(set(numbers)) <= MERGED_FUNCTIONS:
        return [(body, ()) for body in bodies]
    differ = [len(set(column)) > 1 for column in zip(*numbers, strict=True)]
    place = iter(range(len(differ)))
    names = iter(range(sum(differ)))

    def named(found: re.Match[str]) -> str:
        return f"{found[1]}%c{next(names)}" if differ[next(place)] else found[0]

    body = _NUMBER.sub(named, bodies[0])
    loads = "".join(
        f"  %s{k} = getelementptr inbounds i64, ptr %dims, i64 {k}\n"
        f"  %c{k} = load i64, ptr %s{k}, align 8, !invariant.load !0\n"
        for k in range(sum(differ))
    )
    body = body.replace(_ENTRY, _ENTRY + loads, 1)
    return [(body, tuple(n for n, d in zip(own, differ, strict=True) if d)) for own in numbers]
