"""Static shapes of a new op's outputs in a graph that Python builds, from its lowering.

TensorFlow's own shape function knows the declared shapes (`shapes`) without attributes. Where those leave an extent
open, the lowering is run over symbols for unknown sizes; extents that depend on these stay unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.dtypes import from_number
from habana_tf.ir.extent import Extent
from habana_tf.tensorflow.clusters.attributes import plain
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import Row

Known = tuple["int | None", ...]


def refine(row: Row, out: Any) -> None:
    """Sets the static shapes of what an op gave, if it is in a graph and they are not known."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return
    tensors = tf.nest.flatten(out)
    if all(t.shape.is_fully_defined() for t in tensors):
        return
    node = tensors[0].op
    inputs = [t.shape.as_list() if t.shape.rank is not None else None for t in node.inputs]
    if any(shape is None for shape in inputs):
        return
    values = [tf.get_static_value(t) for t in node.inputs]
    for tensor, shape in zip(tensors, inferred(row, node.node_def, inputs, values), strict=False):
        if shape is not None:
            tensor.set_shape(shape)


def inferred(row: Row, node_def: Any, inputs: Sequence[Any], values: Sequence[Any]) -> list[Known]:
    """The outputs' shapes for inputs of these shapes (None for an axis that is not known) and values (None too);
    nothing where the lowering wants numbers, or refuses these."""
    facts = opdefs.known(row.op)
    b = Builder()
    nodes, fixed, symbols = [], {}, 0
    for shape, value, tf_type in zip(inputs, values, facts.input_types(node_def), strict=True):
        extents: list[Extent] = []
        for n in shape:
            extents.append(ext.sym(symbols) if n is None else n)
            symbols += n is None
        dtype = from_number(tf_type)
        if dtype is None:
            return []
        nodes.append(b.input(extents, dtype))
        if value is not None:
            fixed[nodes[-1]] = value
    attrs = {key: plain(value) for key, value in node_def.attr.items() if not key.startswith("_")}
    slices = facts.input_slices(node_def)
    c = Lowering(LoweringContext(b, fixed), row.op, node_def.name, nodes, attrs, row, slices)
    try:
        made = row.lower(c)
    except (LoweringError, NeedsNumber):  # a launch will say what is wrong with these shapes, if anything is
        return []
    assert isinstance(made, list)
    return [tuple(n if isinstance(n, int) else None for n in node.shape) for node in made]
