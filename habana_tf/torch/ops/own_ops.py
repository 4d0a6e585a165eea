"""Ops of our own. Most take as numbers what PyTorch's overloads keep in a generator or in a shape.

A program must not depend on a seed, nor on where a sequence of numbers begins. So `uniform_` of PyTorch is recorded as
`habana_tf::uniform_`, whose seed and offset are read at run time (see `composed`). No dispatcher knows these ops: each
is a schema, by which a row's arguments are found, and a function that says the results' shapes.

The cells of recurrent networks have overloads for devices like this only. Here are the same on any device, for shapes
and for what no program computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

NAMESPACE = "habana_tf::"


@dataclass(frozen=True)
class OwnOp:
    """schema: as PyTorch writes one; call: gives the results, of most ops on the device meta only. Looks like an
    overload of PyTorch."""

    schema: str
    call: Callable[..., Any]
    tags: tuple[torch.Tag, ...] = ()

    @property
    def _schema(self) -> Any:
        return torch._C.parse_schema(self.schema)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def __str__(self) -> str:
        return self.schema.partition("(")[0]


def _written(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return x


def _nothing(*args: Any) -> tuple[()]:
    return ()


def _sequence(count: int, start: Any, step: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device="meta")


def _permutation(n: int, seed: int, offset: int) -> torch.Tensor:
    return torch.empty(n, dtype=torch.int64, device="meta")


def _choices(p: torch.Tensor, count: int, seed: int, offset: int) -> torch.Tensor:
    return torch.empty((*p.shape[:-1], count), dtype=torch.int64, device="meta")


def _dropout(x: torch.Tensor, p: float, seed: int, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


# -- cells ------------------------------------------------------------------------------------------------------


def _summed(given: torch.Tensor, hidden: torch.Tensor, biases: Any) -> torch.Tensor:
    for bias in biases:
        given = given if bias is None else given + bias
    return given + hidden


def _lstm_cell(
    given: torch.Tensor, hidden: torch.Tensor, cx: torch.Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[torch.Tensor, ...]:
    gates = _summed(given, hidden, (input_bias, hidden_bias)).chunk(4, 1)
    enter, forget, cell, leave = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()
    cy = forget * cx + enter * cell
    return leave * cy.tanh(), cy, torch.cat([enter, forget, cell, leave], 1)


def _lstm_cell_backward(
    grad_hy: Any, grad_cy: Any, cx: torch.Tensor, cy: torch.Tensor, workspace: torch.Tensor, has_bias: bool
) -> tuple[Any, ...]:
    enter, forget, cell, leave = workspace.chunk(4, 1)
    out = cy.tanh()
    hidden = torch.zeros_like(cy) if grad_hy is None else grad_hy
    inner = hidden * leave * (1 - out * out) + (0 if grad_cy is None else grad_cy)
    parts = [
        inner * cell * enter * (1 - enter), inner * cx * forget * (1 - forget), inner * enter * (1 - cell * cell),
        hidden * out * leave * (1 - leave),
    ]  # fmt: skip
    gates = torch.cat(parts, 1)
    return gates, inner * forget, gates.sum(0) if has_bias else None


def _gru_cell(
    given: torch.Tensor, hidden: torch.Tensor, hx: torch.Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[torch.Tensor, ...]:
    first = (given if input_bias is None else given + input_bias).chunk(3, 1)
    second = (hidden if hidden_bias is None else hidden + hidden_bias).chunk(3, 1)
    reset, enter = (first[0] + second[0]).sigmoid(), (first[1] + second[1]).sigmoid()
    new = (first[2] + reset * second[2]).tanh()
    return new + enter * (hx - new), torch.cat([reset, enter, new, hx, second[2]], 1)


def _gru_cell_backward(grad: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> tuple[Any, ...]:
    reset, enter, new, old, inner = workspace.chunk(5, 1)
    at_enter = grad * (old - new) * enter * (1 - enter)
    at_new = grad * (1 - enter) * (1 - new * new)
    at_reset = at_new * inner * reset * (1 - reset)
    given, hidden = torch.cat([at_reset, at_enter, at_new], 1), torch.cat([at_reset, at_enter, at_new * reset], 1)
    biases = (given.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return given, hidden, grad * enter, *biases


_CELL = "Tensor input_gates, Tensor hidden_gates, Tensor {}, Tensor? input_bias=None, Tensor? hidden_bias=None"
_STREAM = "int seed, int offset"
_OPS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "sequence": ("int count, Scalar start, Scalar step, ScalarType dtype", "Tensor", _sequence),
    "between": ("int count, Scalar start, Scalar end, ScalarType dtype", "Tensor", _sequence),
    "permutation": (f"int n, {_STREAM}", "Tensor", _permutation),
    "race": (f"Tensor p, {_STREAM}", "Tensor", lambda p, seed, offset: torch.empty_like(p)),
    "choices": (f"Tensor p, int count, {_STREAM}", "Tensor", _choices),
    "lstm_cell": (_CELL.format("cx"), "(Tensor, Tensor, Tensor)", _lstm_cell),
    "lstm_cell_backward": (
        "Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias",
        "(Tensor, Tensor, Tensor)", _lstm_cell_backward,
    ),
    "gru_cell": (_CELL.format("hx"), "(Tensor, Tensor)", _gru_cell),
    "gru_cell_backward": (
        "Tensor grad_hy, Tensor workspace, bool has_bias", "(Tensor, Tensor, Tensor, Tensor, Tensor)",
        _gru_cell_backward,
    ),
    "fused_adam_": (
        "Tensor(a!)[] weights, Tensor[] grads, Tensor(b!)[] means, Tensor(c!)[] squares, Tensor(d!)[] largest, "
        "Tensor[] steps, Scalar lr, float keep1, float log1, float keep2, float log2, float? decay, float eps, "
        "bool maximize, bool decoupled", "()", _nothing,
    ),
    "fused_sgd_": (
        "Tensor(a!)[] weights, Tensor[] grads, Tensor(b!)[] velocities, Scalar lr, float momentum, float keep, "
        "float? decay, bool nesterov, bool maximize, bool first", "()", _nothing,
    ),
    "dropout": (f"Tensor x, float p, {_STREAM}", "(Tensor, Tensor)", _dropout),
    **{
        f"{name}_": (f"Tensor(a!) self, {numbers}, {_STREAM}", "Tensor(a!)", _written)
        for name, numbers in {
            "uniform": "float low, float high", "normal": "float mean, float std", "bernoulli": "float p",
            "bernoulli_by": "Tensor p", "exponential": "float rate", "random": "int low, int count",
            "geometric": "float p", "cauchy": "float median, float sigma", "log_normal": "float mean, float std",
        }.items()
    },
}  # fmt: skip
OPS = {
    f"{NAMESPACE}{name}": OwnOp(f"{NAMESPACE}{name}({arguments}) -> {results}", meta)
    for name, (arguments, results, meta) in _OPS.items()
}
"""By name."""
