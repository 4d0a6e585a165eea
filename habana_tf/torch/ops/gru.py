"""GRU: the cell, which PyTorch has in one piece for devices that are no CPU, and all steps of a layer (see
`habana_tf.torch.dispatch.recurrent`)."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term
from habana_tf.ir.primitives import Loop, Node, Program
from habana_tf.torch.ops.recurrent import gate, loop_body, step_product, steps_of
from habana_tf.torch.ops.row import Call, overload

_GRU_GATES = 3
"""Reset, input and new gate, side by side."""


def _third(c: Call, gates: Term, k: int) -> Term:
    return gate(c.b, gates, k, _GRU_GATES)


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


# -- all steps of a layer ---------------------------------------------------------------------------------------


@overload("habana_tf::gru_layer", floats=True)
def gru_layer(c: Call, gates: Node, weight: Node, bias: Node | None, hx: Node, reverse: bool) -> list[Node]:
    """See `torch.dispatch.recurrent`: h of all steps; reset, update and new gate, and what the new one has from h."""
    trips, rows = steps_of(gates, reverse)
    b, wide = loop_body(c), gates.dtype.accumulator
    h, row = b.input(hx.shape, hx.dtype), b.input(gates.shape[1:], gates.dtype)
    shared = [b.input(n.shape, n.dtype) for n in (weight, bias) if n is not None]
    given = Term(b, b.cast(row, wide))
    hidden = step_product(b, h, shared[0], ((0, 1), (2, 1), (0, 2)), weight.dtype)
    if bias is not None:
        hidden = hidden + Term(b, b.cast(shared[1], wide))
    (xr, xz, xn), (hr, hz, hn) = ([gate(b, t, k, _GRU_GATES) for k in range(3)] for t in (given, hidden))
    reset, update = (xr + hr).map("sigmoid"), (xz + hz).map("sigmoid")
    new = (xn + reset * hn).map("tanh")
    made = b.cast((new + update * (Term(b, b.cast(h, wide)) - new)).node, gates.dtype)
    kept = b.cast(b.concat([t.node for t in (reset, update, new, hn)], 1), gates.dtype)
    body = Program(b.inputs, [made, made, kept])
    inputs = [hx, gates, weight, *([] if bias is None else [bias])]
    return c.b.loop(Loop(trips, body, 1, (rows,), (rows,) * 2), inputs)[1:]


@overload("habana_tf::gru_layer_backward", floats=True)
def gru_layer_backward(c: Call, dy: Node, weight: Node, before: Node, kept: Node, reverse: bool) -> list[Node]:
    """Gradients of the gates from the input and from h, of all steps, and of the first h. before: h one step before."""
    trips, rows = steps_of(dy, not reverse)
    b, wide = loop_body(c), dy.dtype.accumulator
    dh = b.input(dy.shape[1:], dy.dtype)
    grad, old, gates = (b.input(n.shape[1:], n.dtype) for n in (dy, before, kept))
    w = b.input(weight.shape, weight.dtype)

    def term(n: Node) -> Term:
        return Term(b, b.cast(n, wide))

    reset, update, new, hn = (gate(b, term(gates), k) for k in range(4))
    total = term(dh) + term(grad)
    inner = total * (1.0 - update) * (1.0 - new * new)
    d_update = total * (term(old) - new) * update * (1.0 - update)
    d_reset = inner * hn * reset * (1.0 - reset)
    of_input, of_hidden = (
        b.cast(b.concat([d_reset.node, d_update.node, last.node], 1), dy.dtype) for last in (inner, inner * reset)
    )
    left = step_product(b, of_hidden, w, ((0, 2), (2, 1), (0, 1)), weight.dtype) + total * update
    body = Program(b.inputs, [b.cast(left.node, dy.dtype), of_input, of_hidden])
    loop = Loop(trips, body, 1, (rows,) * 3, (rows,) * 2)
    made = c.b.loop(loop, [c.b.const(0, dh.dtype, dh.shape), dy, before, kept, weight])
    return [made[1], made[2], made[0]]
