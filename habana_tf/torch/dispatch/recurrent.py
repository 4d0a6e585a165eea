"""LSTM and GRU by four ops of our own: a layer in one direction and its gradient, for each of the two.

PyTorch's formula for other devices calls a cell for each time step, some thousand ops for a short sentence. Here the
product with the input is one for all steps, as in `torch.nn.functional.linear`, and the loop over steps that is left is
one primitive. The gradient of the recurrent weights is one product again:

    gates[T, B, 4H] = x W_ih' + b_ih + b_hh
    lstm_layer(gates, W_hh, None, h0, c0)   -> h[T, B, H], c[T, B, H], activated gates[T, B, 4H]
    lstm_layer_backward(dh, dc, ...)        -> gradients of gates, h0 and c0
    dW_hh = sum over T, B of dgates' h of the step before

A GRU has three gates and no c. In its new gate the part that comes from h is multiplied by another gate. So its loop
adds b_hh itself, and keeps that part for the gradient. Sequences of different lengths are in `packed_sequences`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from habana_tf.formulas import recurrent

NAMESPACE = "habana_tf"
States = Sequence[Tensor]
"""h, and of an LSTM c: of all layers and directions, or of one."""
CELLS: dict[str, recurrent.Cell] = {"lstm": recurrent.lstm, "gru": recurrent.gru}
Source = Sequence[Tensor | None]
"""What a layer's gates are computed from: its input, and the weight and bias of the input."""
OneLayer = Callable[[Tensor, Sequence[Tensor], int, bool], States]
"""Computes a layer in one direction. Takes its input, its weights, the number of layer and direction, and whether it
walks backwards. Gives the states after all steps."""
Through = Callable[[Tensor, Sequence[Tensor], int, bool], tuple[Tensor, list[Tensor]]]
"""As `OneLayer`, for sequences in any form. Gives h after all steps, and each state after the last one."""
_SCHEMAS = (
    "lstm_layer(Tensor gates, Tensor weight, Tensor? bias, Tensor hx, Tensor cx, bool reverse) "
    "-> (Tensor, Tensor, Tensor)",
    "lstm_layer_backward(Tensor? grad_output, Tensor? grad_cells, Tensor weight, Tensor cx, Tensor cells, "
    "Tensor activated, bool reverse) -> (Tensor, Tensor, Tensor)",
    "gru_layer(Tensor gates, Tensor weight, Tensor? bias, Tensor hx, bool reverse) -> (Tensor, Tensor)",
    "gru_layer_backward(Tensor grad_output, Tensor weight, Tensor before, Tensor kept, bool reverse) "
    "-> (Tensor, Tensor, Tensor)",
)


# -- shapes, and what the CPU computes --------------------------------------------------------------------------


def _shapes(gates: Tensor, weight: Tensor, bias: Tensor | None, hx: Tensor, *cx_and_reverse: Any) -> States:
    shape, *cx = (*gates.shape[:2], weight.shape[1]), *cx_and_reverse[:-1]
    kept = gates.shape if cx else (*shape[:2], (recurrent.GRU_GATES + 1) * shape[2])
    return gates.new_empty(shape), *(c.new_empty(shape) for c in cx), gates.new_empty(kept)


def _lstm_gradient_shapes(dy: Any, dcells: Any, weight: Tensor, cx: Tensor, cells: Any, kept: Tensor, _: Any) -> States:
    return torch.empty_like(kept), kept.new_empty(cx.shape), torch.empty_like(cx)


def _gru_gradient_shapes(dy: Any, weight: Tensor, before: Tensor, kept: Tensor, reverse: bool) -> States:
    shape = (*before.shape[:2], weight.shape[0])
    return kept.new_empty(shape), kept.new_empty(shape), kept.new_empty(before.shape[1:])


def _in_order(count: int, reverse: bool) -> Sequence[int]:
    return range(count)[::-1] if reverse else range(count)


def _stacked(steps: dict[int, States]) -> list[Tensor]:
    """The values of all steps, stacked."""
    return [torch.stack(each) for each in zip(*(steps[t] for t in sorted(steps)), strict=True)]


def _steps(
    cell: recurrent.Cell, gates: Tensor, weight: Tensor, bias: Tensor | None, *states_and_reverse: Any
) -> list[Tensor]:  # fmt: skip
    """A layer step by step, of ops that PyTorch can transform; also for types that no program computes with."""
    *states, reverse = states_and_reverse
    made: dict[int, States] = {}
    for t in _in_order(len(gates), reverse):
        *new, kept = cell(gates[t], functional.linear(states[0], weight, bias), states[-1])
        states = [n.to(old.dtype) for n, old in zip(new, states, strict=True)]
        made[t] = *states, torch.cat(kept, -1)
    return _stacked(made)


def _lstm_gradient(
    dy: Tensor | None, dcells: Tensor | None, weight: Tensor, cx: Tensor, cells: Tensor, activated: Tensor,
    reverse: bool,
) -> States:  # fmt: skip
    """The gradient of a layer, on the CPU."""
    dh, dc = torch.zeros_like(cx, dtype=activated.dtype), torch.zeros_like(cx)
    before, made = _before(cells, cx, reverse), {}  # type: Tensor, dict[int, States]
    for t in _in_order(len(cells), not reverse):
        dh, dc = (grad if more is None else grad + more[t] for grad, more in ((dh, dy), (dc, dcells)))
        parts, dc = recurrent.lstm_gradient(dh, dc, before[t], cells[t], activated[t].chunk(recurrent.LSTM_GATES, 1))
        made[t] = (torch.cat(parts, -1).to(activated.dtype),)
        dh, dc = made[t][0] @ weight, dc.to(cx.dtype)
    return *_stacked(made), dh, dc


def _gru_gradient(dy: Tensor, weight: Tensor, before: Tensor, kept: Tensor, reverse: bool) -> States:
    """The gradient of a layer, on the CPU."""
    dh, made = torch.zeros_like(before[0]), {}  # type: Tensor, dict[int, States]
    for t in _in_order(len(before), not reverse):
        *parts, rest = recurrent.gru_gradient(dh + dy[t], before[t], kept[t].chunk(recurrent.GRU_GATES + 1, 1))
        made[t] = [torch.cat(each, -1) for each in parts]
        dh = made[t][1] @ weight + rest
    return *_stacked(made), dh


def _before(values: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """[T, ...] a value as it was before each step."""
    first = first[None].to(values.dtype)
    return torch.cat([values[1:], first] if reverse else [first, values[:-1]])


_OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "lstm_layer": (_shapes, functools.partial(_steps, recurrent.lstm)),
    "lstm_layer_backward": (_lstm_gradient_shapes, _lstm_gradient),
    "gru_layer": (_shapes, functools.partial(_steps, recurrent.gru)),
    "gru_layer_backward": (_gru_gradient_shapes, _gru_gradient),
}


# -- a layer and its gradient -----------------------------------------------------------------------------------


def _step_by_step(*grads: Tensor | None) -> bool:
    """Whether a layer has to be made of ops that PyTorch can transform: within torch.func, for forward derivatives, and
    for batches of gradients (`is_grads_batched`)."""
    functions = torch._C._functorch
    return (
        functions.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
        or any(functions.is_legacy_batchedtensor(grad) for grad in grads if grad is not None)
    )


def _differentiable(
    cell: recurrent.Cell, source: Source, operands: Sequence[Any], reverse: bool, grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Gradients, by the layer's steps, of its gates and other operands, that can be differentiated again. The gates are
    computed anew from `source`, so that they need not be kept for this."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        gates = functional.linear(*(None if t is None else t.to(operands[0].dtype) for t in source))
        of = [gates, *(None if t is None else t.view_as(t) for t in operands)]  # hx may depend on weight
        made = [(y, grad) for y, grad in zip(_steps(cell, *of, reverse), grads, strict=False) if grad is not None]
    wanted = [k for k, t in enumerate(of) if t is not None and t.requires_grad]
    found = torch.autograd.grad(
        [y for y, _ in made], [of[k] for k in wanted], [grad for _, grad in made], create_graph=again, allow_unused=True
    )  # fmt: skip
    return [found[wanted.index(k)] if k in wanted else None for k in range(len(of))]


class _Layer(torch.autograd.Function):
    """A layer in one direction, for autograd. Its arguments are what the gates were computed from, the gates, recurrent
    weight and bias, and states."""

    @staticmethod
    def forward(ctx: Any, name: str, reverse: bool, *given: Any) -> Any:
        ctx.name, ctx.reverse = name, reverse
        made = getattr(torch.ops.habana_tf, f"{name}_layer")(*given[3:], reverse)
        ctx.save_for_backward(*given[:3], *given[4:], *made)
        ctx.set_materialize_grads(False)
        return tuple(made[:-1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        source, (weight, bias, *states) = ctx.saved_tensors[:3], ctx.saved_tensors[3 : 5 + len(grads)]
        output, *cells, kept = ctx.saved_tensors[5 + len(grads) :]
        if all(grad is None for grad in grads):
            return (None,) * (8 + len(grads))
        if torch.is_grad_enabled() or _step_by_step(*grads):
            operands = weight, bias, *states
            return (None,) * 5 + tuple(_differentiable(CELLS[ctx.name], source, operands, ctx.reverse, grads))
        before = _before(output, states[0], ctx.reverse)
        if cells:
            op = torch.ops.habana_tf.lstm_layer_backward
            of_input, dh, *dc = op(*grads, weight, states[1], cells[0], kept, ctx.reverse)
            of_hidden, dh = of_input, dh.to(states[0].dtype)
        else:
            op = torch.ops.habana_tf.gru_layer_backward
            of_input, of_hidden, dh, *dc = op(grads[0].contiguous(), weight, before, kept, ctx.reverse)
        dweight = of_hidden.flatten(0, 1).t() @ before.flatten(0, 1) if ctx.needs_input_grad[6] else None
        dbias = of_hidden.sum((0, 1)) if ctx.needs_input_grad[7] else None
        return *(None,) * 5, of_input, dweight, dbias, dh, *dc


# -- several layers ---------------------------------------------------------------------------------------------


def one_layer(name: str, states: States) -> OneLayer:
    """The layers of an LSTM or GRU. Under autocast the gates, and so h, have the type of products."""

    def layer(y: Tensor, weights: Sequence[Tensor], k: int, reverse: bool) -> States:
        of_input, of_hidden, *biases = weights
        first, bias = biases or (None, None)
        if biases and name == "lstm":
            first, bias = biases[0] + biases[1], None
        source = y, of_input, first
        gates = functional.linear(*source)
        h, *cell = (state[k] for state in states)
        recurrent_ones = [None if t is None else t.to(gates.dtype) for t in (of_hidden, bias, h)]
        if _step_by_step():
            return _steps(CELLS[name], gates, *recurrent_ones, *cell, reverse)[:-1]
        made: States = _Layer.apply(name, reverse, *source, gates, *recurrent_ones, *cell)
        return made

    return layer


def states_of(hx: Tensor | States) -> States:
    """The states that `torch.gru` or `torch.lstm` is given, in a list: h, or h and c."""
    return [hx] if isinstance(hx, Tensor) else hx


def equally_long(
    name: str, x: Tensor, hx: Tensor | States, params: Sequence[Tensor], *options: Any
) -> tuple[Tensor, ...]:  # fmt: skip
    """`torch.lstm` or `torch.gru` of a batch of equally long sequences. options: as in `layers`."""
    states = states_of(hx)
    if not taken(x, states, params, *options):
        decomposed: tuple[Tensor, ...] = getattr(torch.ops.aten, name).input.decompose(x, hx, params, *options)
        return decomposed
    layer = one_layer(name, states)

    def through(y: Tensor, weights: Sequence[Tensor], k: int, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        made = layer(y, weights, k, reverse)
        return made[0], [state[0 if reverse else -1] for state in made]

    return layers(through, states, x, params, *options)


def taken(
    x: Tensor, states: States, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool = False,
) -> bool:  # fmt: skip
    """Whether our layers can run a call: it has a batch and no projections."""
    count = num_layers * (2 if bidirectional else 1) * (4 if has_biases else 2)
    alike = all(state.shape == states[0].shape for state in states)
    return alike and x.dim() == 3 and x.numel() > 0 and len(params) == count


def layers(
    through: Through, states: States, x: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Leads sequences through all layers and directions. Returns the last layer's h after all steps, and each state
    that layers and directions end with."""
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    y = x.transpose(0, 1) if batch_first else x
    last: list[list[Tensor]] = []
    for number in range(num_layers):
        outputs = []
        for reverse in (False, True)[:directions]:
            k = number * directions + reverse
            output, ends = through(y, params[k * each : (k + 1) * each], k, reverse)
            outputs.append(output)
            last.append(ends)
        y = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and number + 1 < num_layers:
            y = functional.dropout(y, dropout, True)
    hidden, *cells = (torch.stack(ends) for ends in zip(*last, strict=True))
    return y.transpose(0, 1) if batch_first else y, hidden.to(states[0].dtype), *cells


def register(recorded: Callable[[str], Callable[..., Any]]) -> list[torch.library.Library]:
    """Registers our ops and the device's LSTM and GRU. recorded: gives, for a row of the table, what records calls of
    it."""
    own, aten = torch.library.Library(NAMESPACE, "DEF"), torch.library.Library("aten", "IMPL")
    for schema in _SCHEMAS:
        own.define(schema)
    for name, (shapes, steps) in _OPS.items():
        own.impl(name, shapes, "Meta")
        own.impl(name, steps, "CPU")
        own.impl(name, recorded(f"{NAMESPACE}::{name}"), "PrivateUse1")
    for name in CELLS:
        for key in ("AutogradPrivateUse1", "PrivateUse1"):
            aten.impl(f"{name}.input", functools.partial(equally_long, name), key)
    return [own, aten]
