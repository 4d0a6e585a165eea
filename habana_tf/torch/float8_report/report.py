"""`habana_tf.fp8_report`: what 8 bits do to the numbers of a model, as tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from habana_tf.formulas.float8 import largest
from habana_tf.ir.dtypes import DType
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.torch.float8_report import measurements as files
from habana_tf.torch.float8_report.observer import Observer, Operand
from habana_tf.torch.loader import load
from habana_tf.torch.record import current

_MOST = 40
"""Rows that are shown."""


@dataclass(frozen=True)
class Row:
    """One operand. scale: by what its numbers are multiplied before they are rounded, smallest and largest. clipped,
    flushed: shares of its numbers beyond the format's end, and that become 0; of a tensor that was in 8 bits before
    (not exact) they are at most these. error: against bfloat16, None where that is unknown."""

    layer: str
    operand: str
    format: str
    largest: float
    scale: tuple[float, float]
    clipped: float
    flushed: float
    nan: float
    error: float | None
    exact: bool


@dataclass(frozen=True, repr=False)
class Float8Report(Report):
    """chip: whose format it is. ends: its largest float8_e4m3fn. outputs: of each layer that has a counterpart in the
    model in bfloat16, the error of its result against that one's. said: sentences on files and codes."""

    chip: str
    ends: float
    rows: tuple[Row, ...]
    outputs: dict[str, float]
    said: tuple[str, ...]

    def summary(self) -> str:
        if not self.rows:
            return "nothing was cast to 8 bits, and no product took 8 bits"
        cast = sum(row.exact for row in self.rows)
        clipped = [row for row in self.rows if row.clipped and row.exact]
        at = "nothing is clipped"
        if clipped:
            worst = max(clipped, key=lambda row: row.clipped)
            where = worst.layer or "outside of modules"
            at = f"{len(clipped)} of them clipped, at worst {_share(worst.clipped)} ({where})"
        flushed = max(row.flushed for row in self.rows)
        return (
            f"{cast} operands cast to 8 bits and {len(self.rows) - cast} held so on {self.chip}, whose float8_e4m3fn "
            f"ends at {self.ends:g}: {at}; {f'up to {_share(flushed)} of one' if flushed else 'nothing'} becomes 0"
        )

    def to_dict(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"chip": self.chip, "ends": self.ends, "rows": rows, "outputs": self.outputs, "said": list(self.said)}

    def shown(self) -> Sequence[str | Table]:
        parts: list[str | Table] = [self.summary(), *self.said]
        if self.rows:
            rows = sorted(self.rows, key=lambda r: (r.clipped, r.nan, r.flushed, r.error or 0.0), reverse=True)[:_MOST]
            shown = [row for row in self.rows if row in rows]
            columns = ("layer", "operand", "format", ">largest", ">scale", ">clipped", ">to 0", ">error")
            hidden = len(self.rows) - len(shown)
            title = f"the worst of them; {hidden} more are in to_dict()" if hidden else ""
            parts.append(Table(columns, [_cells(row) for row in shown], title))
        if self.outputs:
            worst = sorted(self.outputs.items(), key=lambda each: each[1], reverse=True)[:_MOST]
            listed = [
                (name or "the model", _share(error)) for name, error in self.outputs.items() if (name, error) in worst
            ]
            parts.append(Table(("result of", ">error against bf16"), listed))
        return parts


def _cells(row: Row) -> tuple[str, ...]:
    most = "" if row.exact else "≤ "
    low, high = row.scale
    scale = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    error = "" if row.error is None else _share(row.error)
    clipped, flushed = (f"{most if share else ''}{_share(share)}" for share in (row.clipped, row.flushed))
    return row.layer, row.operand, row.format, f"{row.largest:.4g}", scale, clipped, flushed, error


def _share(share: float) -> str:
    return "0" if not share else f"{100 * share:.3g} %"


def fp8_report(
    model: nn.Module, *inputs: Any, against: nn.Module | None = None, measurements: str | None = None, **named: Any
) -> Float8Report:
    """Calls model(*inputs, **named) without gradients, and tells what 8 bits do to its numbers, layer by layer.

    against: the same model in bfloat16, called with the same inputs; results of layers of the same name, and weights in
    8 bits, are compared with its. measurements: what Neural Compressor calls dump_stats_path, or one of its files;
    whether its entries go with the model's layers, and its scales with the chip, is said in sentences.

    Raises ValueError for a model on another device than the simulated card or the CPU.
    """
    load()
    plain = getattr(model, "_orig_mod", model)  # of torch.compile
    said = list(files.told(measurements, plain)) if measurements is not None else []
    with torch.no_grad():
        wanted = _results(against, inputs, named) if against is not None else {}
        found = dict[str, float]()
        with Observer() as observer, _compared(plain, wanted, found):
            model(*inputs, **named)
    return made(observer, said, found, type(plain).__name__, against)


def made(
    observer: Observer, said: Sequence[str] = (), outputs: dict[str, float] | None = None, outermost: str = "",
    against: nn.Module | None = None,
) -> Float8Report:  # fmt: skip
    """The report of what an observer has seen. outermost: the class of the model, whose name is left out of layers'."""
    rows = []
    sentences = [*said, *observer.said]
    name = current.chip().device_type.capitalize()
    for operand in observer.operands.values():
        if not operand.count:
            continue
        operand.read()
        layer = operand.layer.removeprefix(outermost).removeprefix("/")
        error = operand.error if operand.exact else _error_of_weight(operand, layer, against)
        format = str(operand.format).removeprefix("torch.")
        shares = operand.clipped, operand.flushed, operand.nan
        rows.append(Row(layer, operand.kind, format, operand.largest, operand.scale, *shares, error, operand.exact))
        if operand.nan and not operand.exact:
            sentences.append(
                f"{layer}: {_share(operand.nan)} of the codes of its {operand.kind} are no numbers on {name}, whose "
                "float8_e4m3fn ends at 240: another device wrote them; multiply by 240/448 before they are cast"
            )
    return Float8Report(name, largest(DType.F8E4M3), tuple(rows), outputs or {}, tuple(sentences))


def _error_of_weight(operand: Operand, layer: str, against: nn.Module | None) -> float | None:
    """Of a weight that is held in 8 bits, against that of the model in bfloat16, as it lies or turned over."""
    if against is None or operand.held is None:
        return None
    with contextlib.suppress(AttributeError):
        weight = against.get_submodule(layer).weight.detach().float().to(operand.held.device)
        errors = [_error(operand.held, each) for each in (weight, weight.mT) if each.shape == operand.held.shape]
        return min(errors, default=None)
    return None


def _error(made: torch.Tensor, want: torch.Tensor) -> float:
    wide = want.detach().float()
    return float(((made.detach().float() - wide).norm() / wide.norm()).item())


def _results(model: nn.Module, inputs: Sequence[Any], named: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The results of all layers with weights, and of the model, which is the name ""."""
    found: dict[str, torch.Tensor] = {}
    with contextlib.ExitStack() as held:
        for name, module in model.named_modules():
            if not name or any(True for _ in module.parameters(recurse=False)):
                hook = module.register_forward_hook(lambda m, i, out, name=name: found.update({name: _first(out)}))
                held.callback(hook.remove)
        model(*inputs, **named)
    return found


@contextlib.contextmanager
def _compared(model: nn.Module, wanted: dict[str, torch.Tensor], found: dict[str, float]) -> Iterator[None]:
    """Within it results of layers are compared with those that are wanted of the same name."""

    def compare(name: str, out: torch.Tensor) -> None:
        want = wanted[name]
        if out.shape == want.shape and out.is_floating_point():
            with torch.utils._python_dispatch._disable_current_modes():
                found[name] = _error(out, want.to(out.device))

    with contextlib.ExitStack() as held:
        for name, module in model.named_modules():
            if name in wanted:
                hook = module.register_forward_hook(lambda m, i, out, name=name: compare(name, _first(out)))
                held.callback(hook.remove)
        yield


def _first(out: Any) -> torch.Tensor:
    """The first tensor of a module's result."""
    tensors = [each for each in pytree.tree_leaves(getattr(out, "logits", out)) if isinstance(each, torch.Tensor)]
    return tensors[0] if tensors else torch.empty(0)
