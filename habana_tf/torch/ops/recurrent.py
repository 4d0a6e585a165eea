"""The cell of an LSTM, which PyTorch has in one piece for devices that are no CPU."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir.primitives import Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, overload

_GATES = 4
"""Input, forget, cell and output, side by side in the last axis."""


def _gate(c: Call, gates: Term, k: int) -> Term:
    """One of the gates of [batch, 4 * size]."""
    rows, width = gates.node.shape
    assert isinstance(width, int)
    size = width // _GATES
    return Term(c.b, c.b.slice(gates.node, (0, k * size), (rows, size)))


@overload("_thnn_fused_lstm_cell", floats=True)
def lstm_cell(
    c: Call, input_gates: Node, hidden_gates: Node, cx: Node, input_bias: Node | None = None,
    hidden_bias: Node | None = None,
) -> list[Node]:  # fmt: skip
    """The new hidden state, the new cell, and the gates after their functions."""
    gates = c.term(input_gates) + c.term(hidden_gates)
    for bias in (input_bias, hidden_bias):
        if bias is not None:
            gates = gates + c.term(bias)
    functions = ("sigmoid", "sigmoid", "tanh", "sigmoid")
    enter, forget, cell, leave = (_gate(c, gates, k).map(fn) for k, fn in enumerate(functions))
    cy = forget * c.term(cx) + enter * cell
    workspace = c.b.concat([enter.node, forget.node, cell.node, leave.node], 1)
    return [(leave * cy.map("tanh")).node, cy.node, workspace]


@overload("_thnn_fused_lstm_cell_backward_impl", floats=True)
def lstm_cell_backward(
    c: Call, grad_hy: Node | None, grad_cy: Node | None, cx: Node, cy: Node, workspace: Node, has_bias: bool
) -> Sequence[Node | None]:
    """Gradients of the gates, of the old cell, and of the bias."""
    enter, forget, cell, leave = (_gate(c, c.term(workspace), k) for k in range(_GATES))
    out = c.term(cy).map("tanh")
    zero = out * 0.0
    hidden = zero if grad_hy is None else c.term(grad_hy)
    inner = hidden * leave * (1.0 - out * out) + (zero if grad_cy is None else c.term(grad_cy))
    parts = [
        inner * cell * enter * (1.0 - enter),
        inner * c.term(cx) * forget * (1.0 - forget),
        inner * enter * (1.0 - cell * cell),
        hidden * out * leave * (1.0 - leave),
    ]
    gates = c.b.concat([p.node for p in parts], 1)
    return [gates, (inner * forget).node, c.b.reduce("sum", gates, [0]) if has_bias else None]
