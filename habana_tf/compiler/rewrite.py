"""Rewrites a program before scheduling.

`finish_outputs` makes all outputs distinct computed nodes (an output that is an input, or a repeated one, becomes a
copy), and drops final reshapes, which do not change memory.

`narrow` (narrow_operands.py) lets products read operands in 8 bits instead of casts of them; then `as_loops`
(products_to_reductions.py) turns batched products with symbolic strides into reductions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from habana_tf.compiler.narrow_operands import narrow
from habana_tf.compiler.products_to_reductions import as_loops
from habana_tf.ir.primitives import Node, Op, Program, with_sources


def rewrite(program: Program) -> Program:
    """The program as the scheduler expects it."""
    return rebuild(rebuild(finish_outputs(program), narrow), as_loops)


def finish_outputs(program: Program) -> Program:
    """Makes the outputs distinct computed nodes; see the module's docstring."""
    outputs: list[Node] = []
    for whole in program.outputs:
        node = whole
        while node.op is Op.RESHAPE and node.src[0].op not in (Op.INPUT, Op.CONST):
            node = node.src[0]
        if node in outputs or node in program.outputs:
            node = whole
        if node.op in (Op.INPUT, Op.CONST) or node in outputs:
            node = Node(Op.RESHAPE, (node,), node.shape, node.dtype, None, node.origin)
        outputs.append(node)
    return replace(program, outputs=outputs)


def rebuild(program: Program, change: Callable[[Node], Node]) -> Program:
    """The program with `change` applied to every node, sources first."""
    made: dict[Node, Node] = {}
    for node in program.nodes():
        made[node] = change(with_sources(node, tuple(made[s] for s in node.src)))
    return replace(program, outputs=[made[n] for n in program.outputs])
