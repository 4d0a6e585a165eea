"""The whole table of overloads: all family modules, imported together."""

from __future__ import annotations

from habana_tf.torch.ops import elementwise, indexing, losses, normalization, pooling, products, recurrent, reductions
from habana_tf.torch.ops.row import ROWS, Row

FAMILIES = (elementwise, indexing, losses, normalization, pooling, products, recurrent, reductions)


def rows() -> dict[str, Row]:
    """By overload."""
    return ROWS
