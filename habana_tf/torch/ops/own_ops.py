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

from habana_tf.formulas import recurrent
from habana_tf.torch.ops.random import DISTRIBUTIONS

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


_CELLS = recurrent.Together(lambda parts: torch.cat(list(parts), 1), lambda gates: gates.sum(0))
_CELL = "Tensor input_gates, Tensor hidden_gates, Tensor {}, Tensor? input_bias=None, Tensor? hidden_bias=None"
_STREAM = "int seed, int offset"
_OPS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "sequence": ("int count, Scalar start, Scalar step, ScalarType dtype", "Tensor", _sequence),
    "between": ("int count, Scalar start, Scalar end, ScalarType dtype", "Tensor", _sequence),
    "permutation": (f"int n, {_STREAM}", "Tensor", lambda n, *stream: torch.empty(n, dtype=torch.int64, device="meta")),
    "race": (f"Tensor p, {_STREAM}", "Tensor", lambda p, seed, offset: torch.empty_like(p)),
    "choices": (
        f"Tensor p, int count, {_STREAM}", "Tensor",
        lambda p, count, *stream: torch.empty((*p.shape[:-1], count), dtype=torch.int64, device="meta"),
    ),
    "lstm_cell": (_CELL.format("cx"), "(Tensor, Tensor, Tensor)", _CELLS.lstm_cell),
    "lstm_cell_backward": (
        "Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias",
        "(Tensor, Tensor, Tensor)", _CELLS.lstm_cell_backward,
    ),
    "gru_cell": (_CELL.format("hx"), "(Tensor, Tensor)", _CELLS.gru_cell),
    "gru_cell_backward": (
        "Tensor grad_hy, Tensor workspace, bool has_bias", "(Tensor, Tensor, Tensor, Tensor, Tensor)",
        _CELLS.gru_cell_backward,
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
    "dropout": (
        f"Tensor x, float p, {_STREAM}", "(Tensor, Tensor)",
        lambda x, *rest: (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)),
    ),
    **{
        f"{name}_": (f"Tensor(a!) self, {numbers}, {_STREAM}", "Tensor(a!)", _written)
        for name, numbers in {
            **{name: ", ".join(f"float {n}" for n in drawn.defaults) for name, drawn in DISTRIBUTIONS.items()},
            "bernoulli_by": "Tensor p", "random": "int low, int count",
        }.items()
    },
}  # fmt: skip
OPS = {
    f"{NAMESPACE}{name}": OwnOp(f"{NAMESPACE}{name}({arguments}) -> {results}", meta)
    for name, (arguments, results, meta) in _OPS.items()
}
"""By name."""
