"""The whole table of overloads: all family modules, imported together."""

from __future__ import annotations

from importlib import import_module

from habana_tf.torch.ops.row import ROWS, OverloadRow

FAMILIES = (
    "activations comparisons convolutions creation elementwise float8 functions indexing joining losses "
    "normalization ordering padding pooling products random recurrent reductions resizing updates"
).split()
"""The modules of lowerings: importing them adds their rows."""
for _family in FAMILIES:
    import_module(f"habana_tf.torch.ops.{_family}")


def rows() -> dict[str, OverloadRow]:
    """By overload."""
    return ROWS
