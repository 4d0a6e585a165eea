"""The whole table of overloads: all family modules, imported together."""

from __future__ import annotations

from habana_tf.torch.ops import (
    activations,
    averages,
    comparisons,
    convolutions,
    creation,
    elementwise,
    functions,
    indexing,
    joining,
    losses,
    normalization,
    ordering,
    padding,
    pooling,
    products,
    random,
    recurrent,
    reductions,
    resizing,
    updates,
)
from habana_tf.torch.ops.row import ROWS, OverloadRow

FAMILIES = (
    activations, averages, comparisons, convolutions, creation, elementwise, functions, indexing, joining, losses,
    normalization, ordering, padding, pooling, products, random, recurrent, reductions, resizing, updates,
)  # fmt: skip


def rows() -> dict[str, OverloadRow]:
    """By overload."""
    return ROWS
