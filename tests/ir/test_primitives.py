"""A program of primitives: its nodes in order."""

from __future__ import annotations

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program


def test_nodes_come_sources_first_and_only_when_needed():
    b = Builder()
    x = b.input((2,), DType.F32)
    y = b.map("exp", x)
    b.map("log", x)
    program = Program([x], [b.map("add", y, x), y])
    nodes = program.nodes()
    assert len(nodes) == 3
    assert all(nodes.index(s) < nodes.index(n) for n in nodes for s in n.src)
