"""LSTM and GRU: the cells, which PyTorch has in one piece for devices that are no CPU, and all steps of a layer (see
`habana_tf.torch.dispatch.recurrent`). What they compute is in `habana_tf.formulas.recurrent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.formulas import recurrent
from habana_tf.formulas.term import Term, wrap
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Contraction, Loop, Node, Program
from habana_tf.torch.memory.layouts import SinkingBuilder
from habana_tf.torch.ops.row import Call, formula, overload


def _joined(parts: Sequence[Term]) -> Node:
    return parts[0].b.concat([part.node for part in parts], 1)


_CELLS = recurrent.Together(
    lambda parts: Term(parts[0].b, _joined(parts)), lambda t: Term(t.b, t.b.reduce("sum", t.node, [0]))
)
for _cell, _formula in {
    "lstm_cell": _CELLS.lstm_cell, "lstm_cell_backward_impl": _CELLS.lstm_cell_backward, "gru_cell": _CELLS.gru_cell,
    "gru_cell_backward": _CELLS.gru_cell_backward,
}.items():  # fmt: skip
    formula(f"_thnn_fused_{_cell}", stock=f"habana_tf::{_cell.removesuffix('_impl')}")(
        lambda *operands, fn=_formula: fn(*operands)
    )


# -- all steps of a layer ---------------------------------------------------------------------------------------

Step = Callable[[Builder, list[Node], list[Node], list[Node]], tuple[Sequence[Node], Sequence[Node]]]
"""Gives the new states and what is kept of a step, from the states, the step's rows, and what all steps share."""


def _walk(
    c: Call, reverse: bool, states: Sequence[Node], sliced: Sequence[Node], shared: Sequence[Node], step: Step
) -> list[Node]:
    """The last states and what is kept of all steps. sliced: what the first axis of which are the steps."""
    trips = sliced[0].shape[0]
    order = (ext.add(trips, -1), -1) if reverse else (0, 1)
    b = SinkingBuilder()
    b.origin = c.b.origin
    olds = [b.input(n.shape, n.dtype) for n in states]
    rows = [b.input(n.shape[1:], n.dtype) for n in sliced]
    new, kept = step(b, olds, rows, [b.input(n.shape, n.dtype) for n in shared])
    loop = Loop(trips, Program(b.inputs, [*new, *kept]), len(states), (order,) * len(sliced), (order,) * len(kept))
    return c.b.loop(loop, [*states, *sliced, *shared])


def _rounded(terms: Sequence[Term], like: Sequence[Node]) -> list[Node]:
    """Terms in the types of others."""
    return [term.done(n.dtype) for term, n in zip(terms, like, strict=True)]


def _product(b: Builder, x: Node, weight: Node, transposed: bool) -> Term:
    """x W, or x W^T, in the accumulator of the operands."""
    labels = ((0, 1), (2, 1), (0, 2)) if transposed else ((0, 2), (2, 1), (0, 1))
    dtype = weight.dtype
    return wrap(b, b.contract(b.cast(x, dtype), weight, Contraction(*labels, dtype.accumulator)))


def _layer(
    c: Call, cell: recurrent.Cell, gates: Node, weight: Node, bias: Node | None, states: Sequence[Node], reverse: bool
) -> list[Node]:
    """States of all steps, and what the gradient needs."""

    def step(b: Builder, olds: list[Node], rows: list[Node], shared: list[Node]) -> tuple[list[Node], list[Node]]:
        given, hidden = wrap(b, rows[0]), _product(b, olds[0], shared[0], True)
        if bias is not None:
            hidden = hidden + wrap(b, shared[1])
        *states, kept = cell(given, hidden, wrap(b, olds[-1]))
        new = _rounded(states, olds)
        return new, [*new, b.cast(_joined(kept), gates.dtype)]

    return _walk(c, reverse, states, [gates], [weight] if bias is None else [weight, bias], step)[len(states) :]


@overload("habana_tf::lstm_layer", floats=True)
def lstm_layer(
    c: Call, gates: Node, weight: Node, bias: Node | None, hx: Node, cx: Node, reverse: bool
) -> list[Node]:  # fmt: skip
    """See `habana_tf.torch.dispatch.recurrent`: h, c and the gates after their functions, of all steps."""
    return _layer(c, recurrent.lstm, gates, weight, bias, [hx, cx], reverse)


@overload("habana_tf::gru_layer", floats=True)
def gru_layer(c: Call, gates: Node, weight: Node, bias: Node | None, hx: Node, reverse: bool) -> list[Node]:
    """See `torch.dispatch.recurrent`: h of all steps; reset, update and new gate, and what the new one has from h."""
    return _layer(c, recurrent.gru, gates, weight, bias, [hx], reverse)


@overload("habana_tf::lstm_layer_backward", floats=True)
def lstm_layer_backward(
    c: Call, dy: Node | None, dcells: Node | None, weight: Node, cx: Node, cells: Node, kept: Node, reverse: bool
) -> list[Node]:
    """Gradients of the gates of all steps, and of the first h and c."""
    out = c.b
    first = out.reshape(out.cast(cx, cells.dtype), (1, *cx.shape))
    rest = out.slice(cells, (int(reverse), 0, 0), (ext.add(cells.shape[0], -1), *cx.shape))
    before = out.concat([rest, first] if reverse else [first, rest], 0)

    def step(b: Builder, olds: list[Node], rows: list[Node], shared: list[Node]) -> tuple[list[Node], list[Node]]:
        (dh, dc), (gates, cell, old, *grads) = ([wrap(b, n) for n in nodes] for nodes in (olds, rows))
        if dy is not None:
            dh = dh + grads[0]
        if dcells is not None:
            dc = dc + grads[-1]
        parts, dc = recurrent.lstm_gradient(dh, dc, old, cell, gates.chunk(recurrent.LSTM_GATES, 1))
        dgates = b.cast(_joined(parts), kept.dtype)
        return _rounded([_product(b, dgates, shared[0], False), dc], olds), [dgates]

    zeros = [out.const(0, n.dtype, cx.shape) for n in (kept, cx)]
    given = [n for n in (dy, dcells) if n is not None]
    dh, dc, dgates = _walk(c, not reverse, zeros, [kept, cells, before, *given], [weight], step)
    return [dgates, dh, dc]


@overload("habana_tf::gru_layer_backward", floats=True)
def gru_layer_backward(c: Call, dy: Node, weight: Node, before: Node, kept: Node, reverse: bool) -> list[Node]:
    """Gradients of the gates from the input and from h, of all steps, and of the first h. before: h one step before."""

    def step(b: Builder, olds: list[Node], rows: list[Node], shared: list[Node]) -> tuple[list[Node], list[Node]]:
        grad, old, gates = (wrap(b, n) for n in rows)
        of_gates = gates.chunk(recurrent.GRU_GATES + 1, 1)
        given, hidden, rest = recurrent.gru_gradient(wrap(b, olds[0]) + grad, old, of_gates)
        made = [b.cast(_joined(parts), dy.dtype) for parts in (given, hidden)]
        return _rounded([_product(b, made[1], shared[0], False) + rest], olds), made

    dh, *gates = _walk(c, not reverse, [c.b.const(0, dy.dtype, dy.shape[1:])], [dy, before, kept], [weight], step)
    return [*gates, dh]
