"""Watches a program's casts to 8-bit floats, and the tensors in 8 bits that its products take.

Of each cast the operand is at hand, so that its figures are exact: the largest size, the share of numbers beyond the
format's end, the share that becomes 0, the error of what the codes stand for. Of a tensor that was in 8 bits before,
such as a loaded weight, only codes are: the share that has the format's largest is at most clipped, the share that is 0
is at most flushed. Figures are summed where the tensors are and read at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from habana_tf.torch.hpu_ops.float8 import largest
from habana_tf.torch.record import scopes
from habana_tf.torch.record.each_op import EachOp

FORMATS = (torch.float8_e4m3fn, torch.float8_e5m2)
_MOST = 64
"""Sums of one operand that wait to be read."""


@dataclass
class Operand:
    """What is cast at one place, or held in 8 bits, in all calls so far. scale: by what numbers are multiplied before
    they are rounded, smallest and largest."""

    layer: str
    """The module that it is of, with the outermost one's class first; empty outside of modules."""
    kind: str
    format: torch.dtype
    exact: bool
    count: int = 0
    """Numbers."""
    largest: float = 0.0
    scale: tuple[float, float] = (1.0, 1.0)
    held: torch.Tensor | None = None
    """What the codes stand for, of a tensor in 8 bits that a comparison needs."""
    _sums: list[torch.Tensor] = field(default_factory=list)
    _clipped: float = 0.0
    _flushed: float = 0.0
    _nan: float = 0.0
    _squares: float = 0.0
    _errors: float = 0.0

    def add(self, numbers: int, sums: torch.Tensor) -> None:
        """sums: largest size, smallest and largest scale, clipped, flushed, NaN, squares, squares of errors."""
        self.count += numbers
        self._sums.append(sums)
        if len(self._sums) == _MOST:
            self.read()

    def read(self) -> None:
        if not self._sums:
            return
        table = torch.stack(self._sums).cpu().double()
        self.largest = max(self.largest, float(table[:, 0].max()))
        first = self._squares == self._errors == 0.0 and self.scale == (1.0, 1.0)
        low, high = float(table[:, 1].min()), float(table[:, 2].max())
        self.scale = (low, high) if first else (min(low, self.scale[0]), max(high, self.scale[1]))
        clipped, flushed, nan, squares, errors = (float(each) for each in table[:, 3:].sum(0))
        self._clipped += clipped
        self._flushed += flushed
        self._nan += nan
        self._squares += squares
        self._errors += errors
        self._sums.clear()

    @property
    def clipped(self) -> float:
        return self._clipped / self.count

    @property
    def flushed(self) -> float:
        return self._flushed / self.count

    @property
    def nan(self) -> float:
        """The share of codes that are no numbers on this chip."""
        return self._nan / self.count

    @property
    def error(self) -> float | None:
        """Of what the codes stand for, against what was cast: the square root of the mean square, over that of the
        numbers. None where they are unknown."""
        return (self._errors / self._squares) ** 0.5 if self.exact and self._squares else None


class Observer(EachOp):
    """While it is entered, all casts and products in 8 bits of this thread are noted, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.operands: dict[tuple[Any, ...], Operand] = {}
        self._cast: set[int] = set()
        """Storages of what was cast. What is held since before lies in none of them: its own is never freed."""
        self._held: set[tuple[int, int]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if args and isinstance(args[0], torch.Tensor) and not args[0].is_meta:
            given = dict(enumerate(args)) | (kwargs or {})
            packet = func.overloadpacket
            if packet is torch.ops.hpu.cast_to_fp8_v2:
                self._note(args[0], given.get(1, given.get("scale")), given.get(5, given.get("scale_shape")), made[0])
            elif packet is torch.ops.hpu.fp8_gemm_v2:
                self._product(given)
            elif func is torch.ops.aten._to_copy.default and made.dtype in FORMATS and args[0].dtype not in FORMATS:
                self._note(args[0], None, None, made)
        return made

    def _operand(self, layer: str, kind: str, format: torch.dtype, exact: bool, place: Any) -> Operand:
        key = (layer, kind, format, place)
        if key not in self.operands:
            same = sum(k[:3] == key[:3] for k in self.operands)
            self.operands[key] = Operand(layer, f"{kind} {same + 1}" if same else kind, format, exact)
        return self.operands[key]

    def _note(self, x: torch.Tensor, scale: Any, shape: Any, made: torch.Tensor) -> None:
        """A cast."""
        self._cast.add(made.untyped_storage()._cdata)
        if not x.numel() or x.dtype in FORMATS:
            return
        factor = _factor(1.0 if scale is None else scale, x, shape)
        wide = x.detach().float()
        times = (x.detach() * factor.to(x.dtype)).float()
        stands = made.float()
        error = stands / factor - wide
        sums = torch.stack([
            wide.abs().amax(), factor.amin(), factor.amax(), (times.abs() > largest(made.dtype)).sum().float(),
            ((stands == 0) & (times != 0)).sum().float(), stands.isnan().sum().float(), wide.square().sum(),
            error.square().sum(),
        ])  # fmt: skip
        kind = "weight" if isinstance(x, torch.nn.Parameter) else "cast"
        operand = self._operand(scopes.now(), kind, made.dtype, True, scopes.line())
        operand.add(x.numel(), sums)

    def _product(self, given: dict[Any, Any]) -> None:
        """Operands of a product that were in 8 bits before."""
        for kind, place, name, transposed, by in (("input", 0, "A", 1, 6), ("weight", 2, "B", 3, 7)):
            x: torch.Tensor = given.get(place) if place in given else given[name]
            storage = x.untyped_storage()._cdata
            if x.dtype not in FORMATS or storage in self._cast or (storage, x.storage_offset()) in self._held:
                continue
            self._held.add((storage, x.storage_offset()))
            wide = x.detach().float()
            wide = wide.mT if given.get(transposed, given.get(f"trans_{name}")) and wide.dim() > 1 else wide
            inverse, shape = given.get(by, given.get(f"{name}_scale_inv")), given.get(10, given.get("B_scale_shape"))
            factor = _factor(1.0 if inverse is None else inverse, x, shape if name == "B" else None).reciprocal()
            size = wide.abs().where(~wide.isnan(), 0)
            unknown = torch.zeros((), device=x.device)
            sums = torch.stack([
                (size / factor).amax(), factor.amin(), factor.amax(), (size == largest(x.dtype)).sum().float(),
                (wide == 0).sum().float(), wide.isnan().sum().float(), unknown, unknown,
            ])  # fmt: skip
            operand = self._operand(scopes.now(), kind, x.dtype, False, scopes.line())
            operand.held = wide / factor
            operand.add(x.numel(), sums)


def _factor(scale: Any, like: torch.Tensor, shape: Sequence[int] | None) -> torch.Tensor:
    """A scale as a tensor in float32 that is broadcast with x."""
    factor = torch.as_tensor(scale, dtype=torch.float32, device=like.device)
    return factor if shape is None else factor.reshape(list(shape))
