"""LSTM: the cell, which PyTorch has in one piece for devices that are no CPU, and all steps of a layer (see
`habana_tf.torch.dispatch.recurrent`)."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Loop, Node, Program, Rows
from habana_tf.torch.memory.layouts import SinkingBuilder
from habana_tf.torch.ops.row import Call, overload

_GATES = 4
"""Input, forget, cell and output, side by side in the last axis."""


def gate(b: Builder, gates: Term, k: int, count: int = _GATES) -> Term:
    """One of the gates of [batch, count * size]."""
    rows, width = gates.node.shape
    assert isinstance(width, int)
    size = width // count
    return Term(b, b.slice(gates.node, (0, k * size), (rows, size)))


@overload("_thnn_fused_lstm_cell", stock="habana_tf::lstm_cell", floats=True)
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
    enter, forget, cell, leave = (gate(c.b, gates, k).map(fn) for k, fn in enumerate(functions))
    cy = forget * c.term(cx) + enter * cell
    workspace = c.b.concat([enter.node, forget.node, cell.node, leave.node], 1)
    return [(leave * cy.map("tanh")).node, cy.node, workspace]


@overload("_thnn_fused_lstm_cell_backward_impl", stock="habana_tf::lstm_cell_backward", floats=True)
def lstm_cell_backward(
    c: Call, grad_hy: Node | None, grad_cy: Node | None, cx: Node, cy: Node, workspace: Node, has_bias: bool
) -> Sequence[Node | None]:
    """Gradients of the gates, of the old cell, and of the bias."""
    enter, forget, cell, leave = (gate(c.b, c.term(workspace), k) for k in range(_GATES))
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


# -- all steps of a layer ---------------------------------------------------------------------------------------


def steps_of(x: Node, reverse: bool) -> tuple[Extent, Rows]:
    """How many steps there are, and in which order they are walked."""
    trips = x.shape[0]
    return trips, (ext.add(trips, -1), -1) if reverse else (0, 1)


def loop_body(c: Call) -> SinkingBuilder:
    """Makes what a loop of this op does in each step."""
    b = SinkingBuilder()
    b.origin = c.b.origin
    return b


_Labels = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def step_product(b: Builder, x: Node, weight: Node, spec: _Labels, dtype: DType) -> Term:
    """In the accumulator of the operands."""
    labels = Contraction(*spec, dtype.accumulator)
    return Term(b, b.cast(b.contract(b.cast(x, dtype), weight, labels), dtype.accumulator))


@overload("habana_tf::lstm_layer", floats=True)
def lstm_layer(c: Call, gates: Node, weight: Node, hx: Node, cx: Node, reverse: bool) -> list[Node]:
    """See `habana_tf.torch.dispatch.recurrent`: h, c and the gates after their functions, of all steps."""
    trips, rows = steps_of(gates, reverse)
    b = loop_body(c)
    h, cell = b.input(hx.shape, hx.dtype), b.input(cx.shape, cx.dtype)
    row, w = b.input(gates.shape[1:], gates.dtype), b.input(weight.shape, weight.dtype)
    wide = gates.dtype.accumulator
    sums = Term(b, b.cast(row, wide)) + step_product(b, h, w, ((0, 1), (2, 1), (0, 2)), weight.dtype)
    functions = ("sigmoid", "sigmoid", "tanh", "sigmoid")
    enter, forget, new, leave = (gate(b, sums, k).map(fn) for k, fn in enumerate(functions))
    next_cell = forget * Term(b, b.cast(cell, wide)) + enter * new
    made_cell = b.cast(next_cell.node, cx.dtype)
    made = b.cast((leave * next_cell.map("tanh")).node, gates.dtype)
    activated = b.cast(b.concat([t.node for t in (enter, forget, new, leave)], 1), gates.dtype)
    body = Program(b.inputs, [made, made_cell, made, made_cell, activated])
    loop = Loop(trips, body, 2, (rows,), (rows,) * 3)
    return c.b.loop(loop, [hx, cx, gates, weight])[2:]


@overload("habana_tf::lstm_layer_backward", floats=True)
def lstm_layer_backward(
    c: Call, dy: Node | None, dcells: Node | None, weight: Node, cx: Node, cells: Node, activated: Node, reverse: bool
) -> list[Node]:
    """Gradients of the gates of all steps, and of the first h and c."""
    trips, rows = steps_of(cells, not reverse)
    out = c.b
    first = out.reshape(out.cast(cx, cells.dtype), (1, *cx.shape))
    rest = out.slice(cells, (int(reverse), 0, 0), (ext.add(trips, -1), *cx.shape))
    before = out.concat([rest, first] if reverse else [first, rest], 0)
    b = loop_body(c)
    dh, dc = b.input(cx.shape, activated.dtype), b.input(cx.shape, cx.dtype)
    given = [n for n in (dy, dcells) if n is not None]
    sliced = [activated, cells, before, *given]
    gates, cell, old, *grads = (b.input(n.shape[1:], n.dtype) for n in sliced)
    w = b.input(weight.shape, weight.dtype)
    wide = activated.dtype.accumulator

    def term(n: Node) -> Term:
        return Term(b, b.cast(n, wide))

    hidden, inner = term(dh), term(dc)
    if dy is not None:
        hidden = hidden + term(grads[0])
    if dcells is not None:
        inner = inner + term(grads[-1])
    enter, forget, new, leave = (gate(b, term(gates), k) for k in range(_GATES))
    shown = term(cell).map("tanh")
    inner = inner + hidden * leave * (1.0 - shown * shown)
    parts = [
        inner * new * enter * (1.0 - enter),
        inner * term(old) * forget * (1.0 - forget),
        inner * enter * (1.0 - new * new),
        hidden * shown * leave * (1.0 - leave),
    ]
    dgates = b.cast(b.concat([p.node for p in parts], 1), activated.dtype)
    left = step_product(b, dgates, w, ((0, 2), (2, 1), (0, 1)), weight.dtype)
    outputs = [b.cast(left.node, activated.dtype), b.cast((inner * forget).node, cx.dtype), dgates]
    loop = Loop(trips, Program(b.inputs, outputs), 2, (rows,) * len(sliced), (rows,))
    zeros = [out.const(0, n.dtype, n.shape) for n in (dh, dc)]
    made = out.loop(loop, [*zeros, *sliced, weight])
    return [made[2], made[0], made[1]]
