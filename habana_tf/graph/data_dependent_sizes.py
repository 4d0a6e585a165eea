"""Finds sizes computed from floating-point or random numbers: clusters are cut where such a size fixes a shape.

A cluster computes shapes from shapes and constants, which are known when it is compiled. A size that is drawn or
measured (where a random crop begins, how wide a random blur is) differs from step to step. Computed in the cluster that
it shapes, it would make what it is computed from, a random seed say, part of the signature, and every step would
compile a recipe. So there is a cut: the size arrives from an earlier launch, and there are as many recipes as sizes.

    seed ── uniform ── cast ──┬── crop          launches: [uniform cast] [crop]
    images ───────────────────┘

Integers that the host gives, and arithmetic on them, are left where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..cluster.cluster import SHAPE_ONLY
from ..ir.dtypes import from_tf
from ..lowering.table import lookup
from .ops import argument_names, input_types
from .view import Node

_KNOWN, _GIVEN, _DATA = range(3)
"""Follows from shapes and constants; integers from elsewhere; computed from floating-point or random numbers."""


def decided_by_data(order: Sequence[Node]) -> set[tuple[Node, Node]]:
    """(node, consumer) for each result that data decide and that fixes a shape in `consumer`. order: topological."""
    kinds: dict[Node, int] = {}
    found: set[tuple[Node, Node]] = set()
    for node in order:
        kinds[node] = _kind(node, kinds)
        row = lookup(node.op)
        if row is not None and row.fixed:
            for name, (source, _) in zip(argument_names(node), node.inputs, strict=True):
                if name in row.fixed and kinds.get(source) == _DATA:
                    found.add((source, node))
    return found


def _kind(node: Node, kinds: dict[Node, int]) -> int:
    if node.op == "Const" or node.op in SHAPE_ONLY:
        return _KNOWN
    if "Random" in node.op or node.op.startswith("Stateful"):
        return _DATA
    kind = max((kinds.get(source, _GIVEN) for source, _ in node.inputs), default=_GIVEN)
    return _DATA if kind == _GIVEN and any(_is_float(t) for t in input_types(node)) else kind


def _is_float(tf_type: int) -> bool:
    dtype = from_tf(tf_type)
    return dtype is not None and dtype.is_float
