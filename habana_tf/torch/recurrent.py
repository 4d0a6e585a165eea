"""LSTM as two ops of the device, forward and backward of one layer and direction.

PyTorch takes an LSTM apart into a cell for each time step, some thousand ops for a short sentence. Here the products
with the input are one for all steps, as in `torch.nn.functional.linear`, and what is left is a loop over steps that a
program has as one primitive. The gradient of the recurrent weights is one product again:

    gates[T, B, 4H] = x W_ih' + b_ih + b_hh
    lstm_layer(gates, W_hh, h0, c0)    -> h[T, B, H], c[T, B, H], activated gates[T, B, 4H]
    lstm_layer_backward(dh, dc, ...)   -> gradients of gates, h0 and c0
    dW_hh = sum over T, B of dgates' h of the step before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

NAMESPACE = "habana_tf"
_SCHEMAS = (
    "lstm_layer(Tensor gates, Tensor weight, Tensor hx, Tensor cx, bool reverse) -> (Tensor, Tensor, Tensor)",
    "lstm_layer_backward(Tensor? grad_output, Tensor? grad_cells, Tensor weight, Tensor cx, Tensor cells, "
    "Tensor activated, bool reverse) -> (Tensor, Tensor, Tensor)",
)


def define() -> torch.library.Library:
    """Makes the ops known to PyTorch, with their shapes and what the CPU computes."""
    library = torch.library.Library(NAMESPACE, "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("lstm_layer", _shapes, "Meta")
    library.impl("lstm_layer_backward", _backward_shapes, "Meta")
    library.impl("lstm_layer", _steps, "CPU")
    library.impl("lstm_layer_backward", _backward_steps, "CPU")
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


class _Layer(torch.autograd.Function):
    """One layer in one direction, given the gates from its input."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, hx: Tensor, cx: Tensor, reverse: bool) -> Any:
        output, cells, activated = torch.ops.habana_tf.lstm_layer(gates, weight, hx, cx, reverse)
        ctx.save_for_backward(weight, hx, cx, output, cells, activated)
        ctx.reverse = reverse
        ctx.set_materialize_grads(False)
        return output, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor | None, grad_cells: Tensor | None) -> Any:
        weight, hx, cx, output, cells, activated = ctx.saved_tensors
        if grad_output is None and grad_cells is None:
            return (None,) * 5
        op = torch.ops.habana_tf.lstm_layer_backward
        dgates, dh, dc = op(grad_output, grad_cells, weight, cx, cells, activated, ctx.reverse)
        dweight = None
        if ctx.needs_input_grad[1]:
            before = _before(output, hx, ctx.reverse)
            dweight = dgates.flatten(0, 1).t() @ before.flatten(0, 1)
        return dgates, dweight, dh.to(hx.dtype), dc, None


def lstm(
    x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`torch.lstm` of a batch of equally long sequences."""
    h0, c0 = hx
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    if h0.shape != c0.shape or len(params) != num_layers * directions * each or x.dim() != 3 or not x.numel():
        whole: Any = torch.ops.aten.lstm.input
        made: tuple[Tensor, Tensor, Tensor] = whole.decompose(
            x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
        )
        return made
    y = x.transpose(0, 1) if batch_first else x
    hidden, cells = [], []
    for layer in range(num_layers):
        outputs = []
        for reverse in (False, True)[:directions]:
            k = layer * directions + reverse
            weights = params[k * each : (k + 1) * each]
            output, states = _layer(y, weights, h0[k], c0[k], reverse)
            last = 0 if reverse else -1
            outputs.append(output)
            hidden.append(output[last].to(h0.dtype))
            cells.append(states[last])
        y = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and layer + 1 < num_layers:
            y = functional.dropout(y, dropout, True)
    return y.transpose(0, 1) if batch_first else y, torch.stack(hidden), torch.stack(cells)


def _layer(x: Tensor, weights: Sequence[Tensor], hx: Tensor, cx: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """h and c of all steps. Under autocast the gates, and with them h, come in the type of products."""
    bias = weights[2] + weights[3] if len(weights) > 2 else None
    gates = functional.linear(x, weights[0], bias)
    made: tuple[Tensor, Tensor] = _Layer.apply(gates, weights[1].to(gates.dtype), hx.to(gates.dtype), cx, reverse)
    return made


def register(recorded: Callable[[str], Callable[..., Any]]) -> list[torch.library.Library]:
    """Gives the device its LSTM. recorded: what records calls of a row of the table."""
    own = define()
    for name in ("lstm_layer", "lstm_layer_backward"):
        own.impl(name, recorded(f"{NAMESPACE}::{name}"), "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        aten.impl("lstm.input", lstm, key)
    return [own, aten]
