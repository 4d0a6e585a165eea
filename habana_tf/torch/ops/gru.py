"""The cell of a GRU, which PyTorch has in one piece for devices that are no CPU."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir.primitives import Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, overload

_GRU_GATES = 3
"""Reset, input and new gate, side by side."""


def _third(c: Call, gates: Term, k: int) -> Term:
    rows, width = gates.node.shape
    assert isinstance(width, int)
    size = width // _GRU_GATES
    return Term(c.b, c.b.slice(gates.node, (0, k * size), (rows, size)))


@overload("_thnn_fused_gru_cell", stock="habana_tf::gru_cell", floats=True)
def gru_cell(
    c: Call, input_gates: Node, hidden_gates: Node, hx: Node, input_bias: Node | None = None,
    hidden_bias: Node | None = None,
) -> list[Node]:  # fmt: skip
    """The new hidden state; and the gates, the old state and the hidden part of the new gate for the gradient."""
    given, hidden = c.term(input_gates), c.term(hidden_gates)
    if input_bias is not None and hidden_bias is not None:
        given, hidden = given + c.term(input_bias), hidden + c.term(hidden_bias)
    reset, enter = ((_third(c, given, k) + _third(c, hidden, k)).map("sigmoid") for k in (0, 1))
    inner = _third(c, hidden, 2)
    new = (_third(c, given, 2) + reset * inner).map("tanh")
    old = c.term(hx)
    hy = new + enter * (old - new)
    return [hy.node, c.b.concat([n.node for n in (reset, enter, new, old, inner)], 1)]


@overload("_thnn_fused_gru_cell_backward", stock="habana_tf::gru_cell_backward", floats=True)
def gru_cell_backward(c: Call, grad_hy: Node, workspace: Node, has_bias: bool) -> Sequence[Node | None]:
    """Gradients of the input's and the hidden state's gates, of the old state, and of both biases."""
    b, space = c.b, c.term(workspace)
    rows, width = workspace.shape
    assert isinstance(width, int)
    size = width // 5
    reset, enter, new, old, inner = (Term(b, b.slice(space.node, (0, k * size), (rows, size))) for k in range(5))
    grad = c.term(grad_hy)
    at_enter = grad * (old - new) * enter * (1.0 - enter)
    at_new = grad * (1.0 - enter) * (1.0 - new * new)
    at_reset = at_new * inner * reset * (1.0 - reset)
    given = b.concat([at_reset.node, at_enter.node, at_new.node], 1)
    hidden = b.concat([at_reset.node, at_enter.node, (at_new * reset).node], 1)
    biases = [b.reduce("sum", gates, [0]) if has_bias else None for gates in (given, hidden)]
    return [given, hidden, (grad * enter).node, *biases]
