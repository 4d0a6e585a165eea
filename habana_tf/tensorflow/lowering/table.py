"""The op table: what HPU can run, as data.

One `Row` per TensorFlow op (see `row`): the function that lowers it, the element types it takes, the inputs whose
values fix an output shape, the variables it reads and updates. Everything else follows from it: kernel registrations,
placement, the cluster's signature, the table of supported ops in the docs. Importing this module imports the family
modules, which add their rows.
"""

from __future__ import annotations

from importlib import import_module

from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.row import CUSTOM, ROWS, Row

FAMILIES = (
    "array bins color contraction convolution crops depthwise diagonals indexing joining layout loss lrn math nn "
    "normalization optimizers patches pooling quantization random reduction resize segments slicing special variables "
    "xla"
).split()
"""The modules of lowerings: importing them adds their rows."""
for _family in FAMILIES:
    import_module(f"habana_tf.tensorflow.lowering.{_family}")


def rows() -> dict[str, Row]:
    """The whole table, by op name, without what the program brings."""
    return ROWS


LOOP = "HpuLoop"
"""A loop in a cluster. TensorFlow has no such op, and no kernel is registered for it."""


def _no_lowering(*_: object) -> list[Node]:
    raise AssertionError("a loop is lowered with its cluster: tensorflow/clusters/loops.py")


_INNER = {LOOP: Row(LOOP, _no_lowering, {}, fixed=("fixed",))}


def lookup(name: str) -> Row | None:
    """The row of an op, or None when HPU does not know it."""
    return CUSTOM.get(name) or ROWS.get(name) or _INNER.get(name)
