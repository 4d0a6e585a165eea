"""`op_by_op()`: runs a function on the card, and each of its ops on the CPU as well, on what the card's op got.

    y = softmax(x @ w)    card: mm, softmax    CPU: mm and softmax in float64, and in the types that the card has

So an error is of one op, and not of all before it. Three questions are answered: which op was the first to give a NaN
or an infinity; which was the first to give one where float64 gives a number, as a type overflows; and which is further
from float64 than PyTorch's CPU is in the same types. Ops that draw random numbers are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.torch.dispatch.fallback import host_view
from habana_tf.torch.record import current, scopes
from habana_tf.torch.record.each_op import EachOp
from habana_tf.torch.record.nested import mapped, tensors
from habana_tf.torch.record.overload import is_written

_WIDENED = (torch.float32, torch.bfloat16, torch.float16)
_SHOWN = 8
_MORE = 4.0
"""An op differs where its error is that many times the CPU's, and as many roundings of its type."""


@dataclass(frozen=True)
class ComparedOp:
    """A result of an op. layer, line: what called it. largest: the largest size of its finite numbers. finite: whether
    all are; was_finite: whether all that it read were. error, cpu_error: the largest difference to float64 of the card,
    and of PyTorch's CPU in the same types, by the largest number of float64's result; None where the CPU has no such
    op. overflow: whether float64 gives numbers where the card does not."""

    op: str
    layer: str
    line: str
    shape: tuple[int, ...]
    dtype: str
    largest: float
    finite: bool
    was_finite: bool
    error: float | None
    cpu_error: float | None
    overflow: bool

    @property
    def differs(self) -> bool:
        """Whether the card is further from float64 than PyTorch's CPU, by more than roundings."""
        if self.error is None or self.cpu_error is None:
            return False
        return self.error > _MORE * max(self.cpu_error, torch.finfo(getattr(torch, self.dtype)).eps)

    @property
    def called(self) -> str:
        """What reports call it."""
        return self.op + (f" in {self.layer}" if self.layer else "") + (f" at {self.line}" if self.line else "")


@dataclass(frozen=True, repr=False)
class OpByOp(Report):
    """ops: every result of an op, in order; result: what the function gave; said: sentences."""

    ops: tuple[ComparedOp, ...]
    result: Any = None
    said: tuple[str, ...] = ()

    @property
    def first_not_finite(self) -> ComparedOp | None:
        """The first op that gave a NaN or an infinity and read none."""
        return next((op for op in self.ops if not op.finite and op.was_finite), None)

    @property
    def first_overflow(self) -> ComparedOp | None:
        """The first op that gave a NaN or an infinity where float64 gives a number."""
        return next((op for op in self.ops if op.overflow), None)

    @property
    def first_different(self) -> ComparedOp | None:
        """The first op that is further from float64 than PyTorch's CPU is in the same types."""
        return next((op for op in self.ops if op.differs), None)

    def summary(self) -> str:
        bad, wrong = sum(not op.finite for op in self.ops), sum(op.differs for op in self.ops)
        return f"{len(self.ops):,} results of ops, {bad:,} with NaN or infinities, {wrong:,} unlike the CPU's"

    def to_dict(self) -> list[dict[str, Any]]:
        return [{**asdict(op), "differs": op.differs} for op in self.ops]

    def shown(self) -> list[str | Table]:
        out: list[str | Table] = [f"{self.summary()}.", *self.said]
        for said, op in (
            ("first with a NaN or an infinity", self.first_not_finite),
            ("first where float64 gives a number", self.first_overflow),
            ("first unlike the CPU's", self.first_different),
        ):
            out.append(f"{said}: " + (f"{op.called}, {op.dtype} {list(op.shape)}" if op else "none"))
        for title, key in (
            ("Largest numbers", lambda op: op.largest), ("Largest errors against float64", lambda op: op.error or 0.0)
        ):  # fmt: skip
            rows = [
                (op.op, op.layer, op.dtype, f"{op.largest:.3g}", _said(op.error), _said(op.cpu_error), op.line)
                for op in sorted(self.ops, key=key, reverse=True)[:_SHOWN]
            ]
            out.append(Table(["op", "in", "type", ">largest", ">error", ">the CPU's", "at"], rows, title))
        return out


def op_by_op(function: Callable[..., Any], *args: Any, **kwargs: Any) -> OpByOp:
    """Calls a function, such as a step of training, and compares each op that it runs on the card with the CPU's. Takes
    as long as the CPU does in float64, and the memory of one op more."""
    beside = _Beside()
    with beside:
        result = function(*args, **kwargs)
    return OpByOp(tuple(beside.ops), result, beside.said)


class _Beside(EachOp):
    """Runs each op a second and a third time."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[ComparedOp] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        here = [t for t in tensors([args, kwargs]) if t.device.type == "hpu"]
        if not here or func.is_view or func.namespace == "prim" or torch.Tag.nondeterministic_seeded in func.tags:
            return func(*args, **kwargs)
        same, wide = (mapped(partial(_on_cpu, wide), [list(args), kwargs]) for wide in (False, True))
        was_finite = all(_is_finite(t) for t in tensors(same))
        made = func(*args, **kwargs)
        layer, line = scopes.now(), scopes.line()
        results = list(_results(func, args, kwargs, made))
        others = [_called(func, given) for given in (same, wide)]
        for k, t in enumerate(results):
            if t.device.type == "hpu" and t.is_floating_point() and t.numel():
                alike = (other[k] if other is not None and k < len(other) else None for other in others)
                self.ops.append(_compared(str(func), layer, line, t, was_finite, *alike))
        return made


def _on_cpu(wide: bool, value: Any) -> Any:
    """An argument for the CPU. wide: floats become float64."""
    if isinstance(value, torch.Tensor):
        t = host_view(value, False).clone() if value.device.type == "hpu" else value
        return t.double() if wide and t.dtype in _WIDENED else t
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return torch.float64 if wide and value in _WIDENED else value


def _results(func: Any, args: Sequence[Any], kwargs: dict[str, Any], made: Any) -> Iterator[torch.Tensor]:
    """What a call gives: its results, and the arguments that it wrote where these are none of them."""
    found = list(tensors(made))
    yield from found
    for k, a in enumerate(func._schema.arguments):
        if is_written(a) and not a.is_out:
            for t in tensors(args[k] if k < len(args) else kwargs.get(a.name)):
                if not any(t is each for each in found):
                    yield t


def _called(func: Any, given: Any) -> list[torch.Tensor] | None:
    """What the CPU gives; None where it has no such op of these types."""
    args, kwargs = given
    try:
        return list(_results(func, args, kwargs, func(*args, **kwargs)))
    except RuntimeError:  # NotImplementedError is one
        return None


def _is_finite(t: torch.Tensor) -> bool:
    return not t.is_floating_point() or bool(torch.isfinite(t.double()).all())


def _compared(
    op: str, layer: str, line: str, t: torch.Tensor, was_finite: bool, same: torch.Tensor | None,
    wide: torch.Tensor | None,
) -> ComparedOp:  # fmt: skip
    card = host_view(t, False).double()
    finite = torch.isfinite(card)
    largest = float(torch.where(finite, card, 0).abs().max())
    all_finite = bool(finite.all())
    dtype = str(t.dtype).removeprefix("torch.")
    error, cpu_error, overflow = None, None, False
    if wide is not None and wide.shape == card.shape and wide.is_floating_point():
        exact = wide.double()
        error, overflow = _error(card, exact), bool((torch.isfinite(exact) & ~finite).any())
        if same is not None:
            cpu_error = _error(same.double(), exact)
    return ComparedOp(
        op, layer, line, tuple(t.shape), dtype, largest, all_finite, was_finite, error, cpu_error, overflow
    )


def _error(some: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, by the largest number; infinite where only one of both is a number."""
    finite = torch.isfinite(exact)
    if bool((torch.isfinite(some) != finite).any()):
        return math.inf
    if not bool(finite.any()):
        return 0.0
    difference = float((some - exact)[finite].abs().max())
    return difference / (float(exact[finite].abs().max()) or 1.0) if difference else 0.0


def _said(error: float | None) -> str:
    return "" if error is None else f"{error:.1e}"


current.recorder()  # raises where the device is not loaded
