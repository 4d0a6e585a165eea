"""What ranks exchange around a linear layer of which each has a part: Megatron's tensor and sequence parallelism."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

Exchange = Callable[[torch.Tensor, Any], torch.Tensor]


def _same(x: torch.Tensor, group: Any) -> torch.Tensor:
    return x


def _sum(x: torch.Tensor, group: Any) -> torch.Tensor:
    x = x.clone()
    dist.all_reduce(x, group=group)
    return x


def _all_rows(x: torch.Tensor, group: Any) -> torch.Tensor:
    made = x.new_empty(x.shape[0] * dist.get_world_size(group), *x.shape[1:])
    dist.all_gather_into_tensor(made, x.contiguous(), group=group)
    return made


def _sum_of_rows(x: torch.Tensor, group: Any) -> torch.Tensor:
    made = x.new_empty(x.shape[0] // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_tensor(made, x.contiguous(), group=group)
    return made


class _Exchanged(torch.autograd.Function):
    """One exchange in the forward pass, another in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: Exchange, back: Exchange, group: Any) -> torch.Tensor:
        ctx.back, ctx.group = back, group
        return there(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return ctx.back(gradients[0], ctx.group), None, None, None


class Split:
    """How the ranks of a group share a layer. mode: "column" for parts of the outputs, "row" for parts of the inputs,
    whose results are summed. rows: whether tensors outside are parts by rows (the first axis)."""

    def __init__(self, group: Any, size: int, mode: str | None, rows: bool) -> None:
        self.group, self.mode, self.rows = group, mode if size > 1 else None, rows

    def __deepcopy__(self, memo: dict[int, Any]) -> Split:
        """A copied layer is shared by the same ranks: groups have no copies."""
        return copy.copy(self)

    @property
    def summed(self) -> bool:
        """Whether a bias is added after the ranks' results were."""
        return self.mode == "row"

    def mark(self, parameter: torch.nn.Parameter) -> None:
        """Says as Megatron does that a parameter is a part of one: its optimizers ask."""
        parallel = self.mode is not None and (parameter.dim() == 2 or self.mode == "column")
        for name, value in (("tensor_model_parallel", parallel), ("partition_stride", 1),
                            ("partition_dim", 1 if self.mode == "row" else 0)):  # fmt: skip
            setattr(parameter, name, value)
        if self.rows and self.mode == "row" and parameter.dim() == 1:
            parameter.sequence_parallel = True

    def before(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's input of this rank."""
        if self.mode != "column":
            return x
        there, back = (_all_rows, _sum_of_rows) if self.rows else (_same, _sum)
        made: torch.Tensor = _Exchanged.apply(x, there, back, self.group)
        return made

    def after(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's result."""
        if self.mode != "row":
            return x
        there, back = (_sum_of_rows, _all_rows) if self.rows else (_sum, _same)
        made: torch.Tensor = _Exchanged.apply(x, there, back, self.group)
        return made


@contextlib.contextmanager
def random_numbers(tracker: Any, name: str | None) -> Any:
    """Random numbers of Megatron's tracker, which differ between ranks, or those of the process."""
    with contextlib.nullcontext() if tracker is None else tracker.fork(*([name] if name else [])):
        yield
