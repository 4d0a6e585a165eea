"""Finds sizes computed from floating-point or random numbers: clusters are split where such a size fixes a shape.

A cluster computes shapes from shapes and constants, which are known when it is compiled. A random or measured size (the
begin of a random crop, the width of a random blur) differs from step to step. Computed in the cluster that it shapes,
it would make its own inputs, a random seed say, part of the signature, and every step would compile a recipe. Computed
by an earlier launch, it needs one recipe per size.

    seed ── uniform ── cast ──┬── crop          launches: [uniform cast] [crop]
    images ───────────────────┘

Integers from the host, and arithmetic on them, are left where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir.dtypes import from_number
from habana_tf.tensorflow.clusters.cluster import SHAPE_ONLY, loop_body
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.graph.ops import argument_names, input_types
from habana_tf.tensorflow.graph.view import Node, Ref
from habana_tf.tensorflow.lowering.table import LOOP, lookup

_KNOWN, _GIVEN, _DATA = range(3)
"""Follows from shapes and constants; integers from elsewhere; computed from floating-point or random numbers."""


def decided_by_data(order: Sequence[Node]) -> set[tuple[Node, Node]]:
    """(node, consumer) for each result that data decide and that fixes a shape in `consumer`. order: topological."""
    kinds: dict[Node, int] = {}
    loops: dict[Node, list[int]] = {}
    found: set[tuple[Node, Node]] = set()

    def kind(ref: Ref) -> int:
        source, output = ref
        return loops[source][output] if source in loops else kinds.get(source, _GIVEN)

    for node in order:
        sources = [kind(ref) for ref in node.inputs]
        kinds[node] = _kind(node.op, sources, input_types(node))
        if node.op == LOOP:
            loops[node] = _results(node, sources)
        row = lookup(node.op)
        if row is not None and row.fixed:
            for name, ref in zip(argument_names(node), node.inputs, strict=True):
                if name in row.fixed and kind(ref) == _DATA:
                    found.add((ref[0], node))
    return found


def _kind(op: str, sources: Sequence[int], types: Sequence[int]) -> int:
    if op == "Const" or op in SHAPE_ONLY:
        return _KNOWN
    if "Random" in op or op.startswith("Stateful"):
        return _DATA
    kind = max(sources, default=_GIVEN)
    return (
        _DATA
        if kind == _GIVEN and any((dtype := from_number(t)) is not None and dtype.is_float for t in types)
        else kind
    )


def _results(loop: Node, sources: Sequence[int]) -> list[int]:
    """The kind of each result of a loop. What only follows from variables that lowering counts through is no more than
    what these begin with; of a list that is so of constants alone. All else the loop has to compute."""
    body = loop_body(loop.proto)
    form = body.form
    counted = [form.slots[k].fixed or _begins_as_number(ref[0]) for k, ref in zip(form.order, loop.inputs, strict=True)]
    found = []
    for k, (inputs, nodes) in zip(form.results, body.origins, strict=True):
        given = [sources[at] for at in inputs]
        ops = [body.ops[n] for n in nodes]
        made = [_kind(op.op, given, opdefs.known(op.op).input_types(op.proto)) for op in ops]
        kind = max([*given, *(x for x in made if x == _DATA)], default=_KNOWN)
        known = form.slots[k].kind == "value" or (form.slots[k].kind == "push" and kind == _KNOWN)
        found.append(kind if known and all(counted[at] for at in inputs) else _DATA)
    return found


def _begins_as_number(source: Node) -> bool:
    """Whether a variable begins as an integer constant, by itself and no array: `tensorflow.clusters.loops` counts
    it then."""
    if source.op != "Const":
        return False
    value = source.proto.attr["value"].tensor
    dtype = from_number(value.dtype)
    return dtype is not None and not dtype.is_float and not value.tensor_shape.dim
