"""LSTM and GRU as two ops of the device each, forward and backward of one layer and direction.

PyTorch takes them apart into a cell for each time step, some thousand ops for a short sentence. Here the products
with the input are one for all steps, as in `torch.nn.functional.linear`, and what is left is a loop over steps that a
program has as one primitive. The gradient of the recurrent weights is one product again:

    gates[T, B, 4H] = x W_ih' + b_ih + b_hh
    lstm_layer(gates, W_hh, h0, c0)    -> h[T, B, H], c[T, B, H], activated gates[T, B, 4H]
    lstm_layer_backward(dh, dc, ...)   -> gradients of gates, h0 and c0
    dW_hh = sum over T, B of dgates' h of the step before

A GRU has three gates, no c, and keeps what h adds to its new gate apart from the input's part.

Sequences of different lengths are in `packed_sequences`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NAMESPACE = "habana_tf"
Source = Sequence[Tensor | None]
"""What the gates from a layer's input are made of: the input, its weight and its bias."""
OneLayer = Callable[[Tensor, Sequence[Tensor], int, bool], tuple[Tensor, ...]]
"""Gives the states of all steps, h first, of layer and direction number k; of its input, its weights, k, and whether it
walks backwards."""
Through = Callable[[Tensor, Sequence[Tensor], int, bool], tuple[Tensor, list[Tensor]]]
"""Leads sequences through such a layer: gives h of all steps, and each state as it is in the end."""
_SCHEMAS = (
    "lstm_layer(Tensor gates, Tensor weight, Tensor hx, Tensor cx, bool reverse) -> (Tensor, Tensor, Tensor)",
    "lstm_layer_backward(Tensor? grad_output, Tensor? grad_cells, Tensor weight, Tensor cx, Tensor cells, "
    "Tensor activated, bool reverse) -> (Tensor, Tensor, Tensor)",
    "gru_layer(Tensor gates, Tensor weight, Tensor? bias, Tensor hx, bool reverse) -> (Tensor, Tensor)",
    "gru_layer_backward(Tensor grad_output, Tensor weight, Tensor before, Tensor kept, bool reverse) "
    "-> (Tensor, Tensor, Tensor)",
)


def define() -> torch.library.Library:
    """Makes the ops known to PyTorch, with their shapes and what the CPU computes."""
    library = torch.library.Library(NAMESPACE, "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    for name, (shapes, steps) in _OPS.items():
        library.impl(name, shapes, "Meta")
        library.impl(name, steps, "CPU")
    return library


def _shapes(gates: Tensor, weight: Tensor, hx: Tensor, cx: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*gates.shape[:2], weight.shape[1])
    return gates.new_empty(shape), cx.new_empty(shape), gates.new_empty(gates.shape)


def _backward_shapes(
    grad_output: Tensor | None, grad_cells: Tensor | None, weight: Tensor, cx: Tensor, cells: Tensor, activated: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    shape = cx.shape
    return activated.new_empty(activated.shape), activated.new_empty(shape), cx.new_empty(shape)


def _steps(gates: Tensor, weight: Tensor, hx: Tensor, cx: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The layer on the CPU, for types that no program computes with."""
    h, c = hx.to(gates.dtype), cx
    made: list[Any] = [None] * len(gates)
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        parts = (gates[t] + h @ weight.t().to(gates.dtype)).chunk(4, -1)
        enter, forget, leave = (parts[k].sigmoid() for k in (0, 1, 3))
        cell = parts[2].tanh()
        c = (forget * c + enter * cell).to(cx.dtype)
        h = (leave * c.tanh()).to(gates.dtype)
        made[t] = h, c, torch.cat([enter, forget, cell, leave], -1)
    first, second, third = (torch.stack(x) for x in zip(*made, strict=True))
    return first, second, third


def _backward_steps(
    grad_output: Tensor | None, grad_cells: Tensor | None, weight: Tensor, cx: Tensor, cells: Tensor, activated: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradient on the CPU."""
    dh, dc = torch.zeros_like(cx, dtype=activated.dtype), torch.zeros_like(cx)
    before = _before(cells, cx, reverse)
    made: list[Any] = [None] * len(cells)
    for t in range(len(cells)) if reverse else reversed(range(len(cells))):
        enter, forget, cell, leave = activated[t].chunk(4, -1)
        out = cells[t].tanh()
        dh = dh if grad_output is None else dh + grad_output[t]
        inner = dh * leave * (1 - out * out) + (dc if grad_cells is None else dc + grad_cells[t])
        parts = [
            inner * cell * enter * (1 - enter), inner * before[t] * forget * (1 - forget),
            inner * enter * (1 - cell * cell), dh * out * leave * (1 - leave),
        ]  # fmt: skip
        made[t] = torch.cat(parts, -1).to(activated.dtype)
        dh, dc = made[t] @ weight.to(activated.dtype), (inner * forget).to(cx.dtype)
    return torch.stack(made), dh, dc


def _before(values: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """[T, ...] what a value was one step before."""
    first = first[None].to(values.dtype)
    return torch.cat([values[1:], first] if reverse else [first, values[:-1]])


def _step_by_step(*grads: Tensor | None) -> bool:
    """Whether a layer must be made of ops that PyTorch can transform: for torch.func, derivatives taken forwards, and
    batches of gradients (`is_grads_batched`)."""
    functions = torch._C._functorch
    return (
        functions.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
        or any(functions.is_legacy_batchedtensor(grad) for grad in grads if grad is not None)
    )


def _differentiable(
    steps: Callable[..., Any], source: Source, operands: Sequence[Any], reverse: bool, grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Gradients of the gates and of a layer's other operands that can be differentiated again: those of its steps, one
    after the other. The gates are made anew of what they came from, so that nobody keeps them for this."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        gates = functional.linear(*(None if t is None else t.to(operands[0].dtype) for t in source))
        of = [gates, *(None if t is None else t.view_as(t) for t in operands)]  # hx may depend on weight
        made = [(y, grad) for y, grad in zip(steps(*of, reverse), grads, strict=False) if grad is not None]
    wanted = [k for k, t in enumerate(of) if t is not None and t.requires_grad]
    found = torch.autograd.grad(
        [y for y, _ in made], [of[k] for k in wanted], [grad for _, grad in made], create_graph=again, allow_unused=True
    )  # fmt: skip
    return [found[wanted.index(k)] if k in wanted else None for k in range(len(of))]


class _Layer(torch.autograd.Function):
    """One layer in one direction, given the gates from its input, and what these came from."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, weight: Tensor, hx: Tensor, cx: Tensor, reverse: bool, *source: Tensor | None
    ) -> Any:
        output, cells, activated = torch.ops.habana_tf.lstm_layer(gates, weight, hx, cx, reverse)
        ctx.save_for_backward(weight, hx, cx, output, cells, activated, *source)
        ctx.reverse = reverse
        ctx.set_materialize_grads(False)
        return output, cells

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor | None, grad_cells: Tensor | None) -> Any:
        weight, hx, cx, output, cells, activated, *source = ctx.saved_tensors
        if grad_output is None and grad_cells is None:
            return (None,) * 8
        if torch.is_grad_enabled() or _step_by_step(grad_output, grad_cells):
            grads = _differentiable(_steps, source, (weight, hx, cx), ctx.reverse, (grad_output, grad_cells))
            return *grads, None, None, None, None
        op = torch.ops.habana_tf.lstm_layer_backward
        dgates, dh, dc = op(grad_output, grad_cells, weight, cx, cells, activated, ctx.reverse)
        dweight = None
        if ctx.needs_input_grad[1]:
            before = _before(output, hx, ctx.reverse)
            dweight = dgates.flatten(0, 1).t() @ before.flatten(0, 1)
        return dgates, dweight, dh.to(hx.dtype), dc, None, None, None, None


def _gru_shapes(gates: Tensor, weight: Tensor, bias: Tensor | None, hx: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    size = weight.shape[1]
    return gates.new_empty((*gates.shape[:2], size)), gates.new_empty((*gates.shape[:2], 4 * size))


def _gru_backward_shapes(
    grad_output: Tensor, weight: Tensor, before: Tensor, kept: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*before.shape[:2], weight.shape[0])
    return kept.new_empty(shape), kept.new_empty(shape), kept.new_empty(before.shape[1:])


def _gru_steps(gates: Tensor, weight: Tensor, bias: Tensor | None, hx: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """The layer on the CPU."""
    h, made = hx, [None] * len(gates)  # type: tuple[Tensor, list[Any]]
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        (xr, xz, xn), (hr, hz, hn) = (x.chunk(3, -1) for x in (gates[t], functional.linear(h, weight, bias)))
        r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
        n = (xn + r * hn).tanh()
        h = n + z * (h - n)
        made[t] = h, torch.cat([r, z, n, hn], -1)
    first, second = (torch.stack(x) for x in zip(*made, strict=True))
    return first, second


def _gru_backward_steps(
    grad_output: Tensor, weight: Tensor, before: Tensor, kept: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient on the CPU."""
    dh = torch.zeros_like(before[0])
    made: list[Any] = [None] * len(before)
    for t in range(len(before)) if reverse else reversed(range(len(before))):
        r, z, n, hn = kept[t].chunk(4, -1)
        dh = dh + grad_output[t]
        inner = dh * (1 - z) * (1 - n * n)
        parts = [inner * hn * r * (1 - r), dh * (before[t] - n) * z * (1 - z)]
        made[t] = torch.cat([*parts, inner], -1), torch.cat([*parts, inner * r], -1)
        dh = made[t][1] @ weight + dh * z
    first, second = (torch.stack(x) for x in zip(*made, strict=True))
    return first, second, dh


_OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "lstm_layer": (_shapes, _steps),
    "lstm_layer_backward": (_backward_shapes, _backward_steps),
    "gru_layer": (_gru_shapes, _gru_steps),
    "gru_layer_backward": (_gru_backward_shapes, _gru_backward_steps),
}


class _GruLayer(torch.autograd.Function):
    """As `_Layer`, of a GRU."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor | None, hx: Tensor, reverse: bool, *source: Tensor | None
    ) -> Any:
        output, kept = torch.ops.habana_tf.gru_layer(gates, weight, bias, hx, reverse)
        ctx.save_for_backward(weight, bias, hx, output, kept, *source)
        ctx.reverse = reverse
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        weight, bias, hx, output, kept, *source = ctx.saved_tensors
        if torch.is_grad_enabled() or _step_by_step(grad_output):
            grads = _differentiable(_gru_steps, source, (weight, bias, hx), ctx.reverse, (grad_output,))
            return *grads, None, None, None, None
        before = _before(output, hx, ctx.reverse)
        op = torch.ops.habana_tf.gru_layer_backward
        of_input, of_hidden, dh = op(grad_output.contiguous(), weight, before, kept, ctx.reverse)
        dweight = of_hidden.flatten(0, 1).t() @ before.flatten(0, 1) if ctx.needs_input_grad[1] else None
        dbias = of_hidden.sum((0, 1)) if ctx.needs_input_grad[2] else None
        return of_input, dweight, dbias, dh, None, None, None, None


def lstm(
    x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`torch.lstm` of a batch of equally long sequences."""
    h0, c0 = hx
    options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if h0.shape != c0.shape or not taken(x, params, *options[:2], bidirectional):
        made: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.lstm.input.decompose(x, hx, params, *options)
        return made

    y, (hidden, cells) = layers(_Equal(lstm_of(h0, c0)), x, params, *options)
    return y, hidden.to(h0.dtype), cells


def lstm_of(h0: Tensor, c0: Tensor) -> OneLayer:
    return lambda y, weights, k, reverse: _layer(y, weights, h0[k], c0[k], reverse)


def gru(
    x: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`torch.gru` of a batch of equally long sequences."""
    options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if not taken(x, params, *options[:2], bidirectional):
        made: tuple[Tensor, Tensor] = torch.ops.aten.gru.input.decompose(x, hx, params, *options)
        return made

    y, (hidden,) = layers(_Equal(gru_of(hx)), x, params, *options)
    return y, hidden.to(hx.dtype)


def gru_of(hx: Tensor) -> OneLayer:
    def layer(y: Tensor, weights: Sequence[Tensor], k: int, reverse: bool) -> tuple[Tensor, ...]:
        of_input, of_hidden, *biases = weights
        source = y, of_input, biases[0] if biases else None
        gates = functional.linear(*source)
        bias = biases[1].to(gates.dtype) if biases else None
        operands = gates, of_hidden.to(gates.dtype), bias, hx[k].to(gates.dtype), reverse
        return (_gru_steps(*operands)[0] if _step_by_step() else _GruLayer.apply(*operands, *source),)

    return layer


class _Equal:
    """How sequences of one length go through a layer."""

    def __init__(self, layer: OneLayer) -> None:
        self.layer = layer

    def __call__(self, y: Tensor, weights: Sequence[Tensor], k: int, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        """h of all steps, and each state as it is in the end."""
        states = self.layer(y, weights, k, reverse)
        return states[0], [state[0 if reverse else -1] for state in states]


def taken(x: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, bidirectional: bool) -> bool:
    """Whether a call is for layers as they are here: with a batch, and without projections."""
    each = (2 if bidirectional else 1) * (4 if has_biases else 2)
    return x.dim() == 3 and x.numel() > 0 and len(params) == num_layers * each


def layers(
    through: Through, x: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """The last layer's h of all steps, and of each state what all layers and directions end with."""
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
    return y.transpose(0, 1) if batch_first else y, [torch.stack(states) for states in zip(*last, strict=True)]


def _layer(x: Tensor, weights: Sequence[Tensor], hx: Tensor, cx: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """h and c of all steps. Under autocast the gates, and with them h, come in the type of products."""
    source = x, weights[0], weights[2] + weights[3] if len(weights) > 2 else None
    gates = functional.linear(*source)
    operands = gates, weights[1].to(gates.dtype), hx.to(gates.dtype), cx, reverse
    made: tuple[Tensor, Tensor] = _steps(*operands)[:2] if _step_by_step() else _Layer.apply(*operands, *source)
    return made


def register(recorded: Callable[[str], Callable[..., Any]]) -> list[torch.library.Library]:
    """Gives the device its LSTM and GRU. recorded: what records calls of a row of the table."""
    own = define()
    for name in _OPS:
        own.impl(name, recorded(f"{NAMESPACE}::{name}"), "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        aten.impl("lstm.input", lstm, key)
        aten.impl("gru.input", gru, key)
    return [own, aten]
