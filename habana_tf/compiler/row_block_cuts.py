"""How a block of rows of a value depends on blocks of its sources, for `row_block_groups`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.ir.primitives import Node, Op

Cuts = tuple[int | None, ...]
"""The axes of a node that are cut: one for each batch axis, then the row axis; None if the node lacks the axis."""
CutNode = tuple[Node, Cuts]
"""A node and how it is cut into blocks."""


def cuts_of(axes: Sequence[int], labels: Sequence[int | None]) -> Cuts:
    return tuple(axes.index(x) if x is not None and x in axes else None for x in labels)


def block_sources(node: Node, cuts: Cuts) -> list[CutNode] | None:
    """The blocks that a block depends on; None if they cannot be determined."""
    if node.op is Op.MAP:
        return [(s, cuts) for s in node.src]
    if node.op is Op.CONST:
        return []
    if node.op is Op.CONTRACT:
        labels = [None if axis is None else node.arg.out[axis] for axis in cuts]
        return [(s, cuts_of(own, labels)) for s, own in zip(node.src, (node.arg.a, node.arg.b), strict=True)]
    (x,) = node.src
    places: list[int | None] = []
    for axis in cuts:
        if axis is None:
            places.append(None)
        elif node.op is Op.EXPAND:
            places.append(None if x.shape[axis] == 1 and node.shape[axis] != 1 else axis)
        elif node.op is Op.PERMUTE:
            places.append(node.arg[axis])
        elif node.op is Op.REDUCE:
            places.append([k for k in range(x.rank) if k not in node.arg[1]][axis])
        elif node.op is Op.RESHAPE:
            found = next((k for k in range(x.rank) if _same_axis(node, axis, x, k)), None)
            if found is None:
                return None
            places.append(found)
        else:
            return None
    return [(x, tuple(places))]


def _same_axis(a: Node, p: int, b: Node, q: int) -> bool:
    """Whether axis p of a tensor corresponds to axis q of its reshape."""
    return a.shape[p] == b.shape[q] and math.prod(known_sizes(a)[:p]) == math.prod(known_sizes(b)[:q])


def known_sizes(node: Node) -> list[int]:
    return [n for n in node.shape if isinstance(n, int)]
