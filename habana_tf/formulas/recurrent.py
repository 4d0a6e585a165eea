"""Cells of recurrent networks, forward and backward.

A value is a `Term` or a tensor of a framework: both have Python's operators, `sigmoid`, `tanh` and `chunk`, so that one
formula says what a program computes and what the CPU does. Gates lie side by side in the last axis, in PyTorch's and
cuDNN's order. LSTM is Hochreiter's and Schmidhuber's with Gers' forget gate; GRU is Cho's, with the reset gate behind
the product with h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Value = Any
Cell = Callable[[Value, Value, Value], tuple[Any, ...]]
"""The new states, and a list of what the gradient needs, from the gates' part of the input, that of h, and the last one
of the old states."""
LSTM_GATES = 4
"""Input, forget, cell and output."""
GRU_GATES = 3
"""Reset, update and new gate."""


def lstm(given: Value, hidden: Value, cell: Value) -> tuple[Value, Value, list[Value]]:
    """The new h and cell, and the gates after their functions, from both parts of the gates and the old cell."""
    parts = (given + hidden).chunk(LSTM_GATES, 1)
    enter, forget, new, leave = parts[0].sigmoid(), parts[1].sigmoid(), parts[2].tanh(), parts[3].sigmoid()
    cell = forget * cell + enter * new
    return leave * cell.tanh(), cell, [enter, forget, new, leave]


def lstm_gradient(
    dh: Value, dcell: Value, before: Value, cell: Value, kept: Sequence[Value]
) -> tuple[list[Value], Value]:
    """Gradients of the gates and of the old cell. dh, dcell: of the results, 0.0 for none; before, cell: old and new
    one; kept: the gates after their functions."""
    enter, forget, new, leave = kept
    shown = cell.tanh()
    dcell = dcell + dh * leave * (1.0 - shown * shown)
    gates = [
        dcell * new * enter * (1.0 - enter),
        dcell * before * forget * (1.0 - forget),
        dcell * enter * (1.0 - new * new),
        dh * shown * leave * (1.0 - leave),
    ]
    return gates, dcell * forget


def gru(given: Value, hidden: Value, h: Value) -> tuple[Value, list[Value]]:
    """The new h; and the gates with what the new gate has from h, from both parts of the gates and the old h."""
    (xr, xz, xn), (hr, hz, hn) = (part.chunk(GRU_GATES, 1) for part in (given, hidden))
    reset, update = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    new = (xn + reset * hn).tanh()
    return new + update * (h - new), [reset, update, new, hn]


def gru_gradient(dh: Value, before: Value, kept: Sequence[Value]) -> tuple[list[Value], list[Value], Value]:
    """Gradients of the gates' part from the input, of that from h, and of the old h but through its gates. before: the
    old h; kept: as `gru` gives it."""
    reset, update, new, hn = kept
    dnew = dh * (1.0 - update) * (1.0 - new * new)
    dupdate = dh * (before - new) * update * (1.0 - update)
    dreset = dnew * hn * reset * (1.0 - reset)
    return [dreset, dupdate, dnew], [dreset, dupdate, dnew * reset], dh * update


# -- one step as PyTorch has it, with biases, and gates side by side ----------------------------------------------


class Together:
    """How values are put side by side, and added up over the first axis; of terms or of tensors."""

    def __init__(self, join: Callable[[Sequence[Value]], Value], total: Callable[[Value], Value]) -> None:
        self.join, self.total = join, total

    def lstm_cell(self, given: Value, hidden: Value, cx: Value, *biases: Value | None) -> tuple[Value, ...]:
        """The new hidden state, the new cell, and the gates after their functions."""
        given, hidden = _with(biases, given, hidden)
        hy, cy, kept = lstm(given, hidden, cx)
        return hy, cy, self.join(kept)

    def lstm_cell_backward(
        self, dh: Value | None, dc: Value | None, cx: Value, cy: Value, kept: Value, has_bias: bool
    ) -> tuple[Value, ...]:
        """Gradients of the gates, of the old cell, and of the bias."""
        dh, dc = (0.0 if grad is None else grad for grad in (dh, dc))
        parts, old = lstm_gradient(dh, dc, cx, cy, kept.chunk(LSTM_GATES, 1))
        gates = self.join(parts)
        return gates, old, self.total(gates) if has_bias else None

    def gru_cell(self, given: Value, hidden: Value, hx: Value, *biases: Value | None) -> tuple[Value, ...]:
        """The new hidden state; and the gates, the old state and the hidden part of the new gate for the gradient."""
        given, hidden = _with(biases, given, hidden)
        hy, kept = gru(given, hidden, hx)
        return hy, self.join([*kept[:3], hx, kept[3]])

    def gru_cell_backward(self, grad: Value, kept: Value, has_bias: bool) -> tuple[Value, ...]:
        """Gradients of the input's and the hidden state's gates, of the old state, and of both biases."""
        *parts, old, inner = kept.chunk(GRU_GATES + 2, 1)
        *gates, rest = gru_gradient(grad, old, [*parts, inner])
        joined = [self.join(each) for each in gates]
        return *joined, rest, *(self.total(g) if has_bias else None for g in joined)


def _with(biases: Sequence[Value | None], *gates: Value) -> list[Value]:
    """Both parts of the gates, with their biases."""
    return [g if bias is None else g + bias for g, bias in zip(gates, biases or (None, None), strict=True)]
