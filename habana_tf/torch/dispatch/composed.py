"""Overloads that are recorded as ops of our own: random ones, with the place in the random stream as numbers; sequences
such as `arange`, with their length.

Each method is the device's kernel of an overload of PyTorch. Wrong arguments are refused by PyTorch's own kernel, which
is called on an empty tensor of the CPU for that. What no program can compute (float64, say) runs on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from habana_tf.torch.dispatch import fallback
from habana_tf.torch.ops.ordering import MOST_SORTED
from habana_tf.torch.ops.own_ops import NAMESPACE
from habana_tf.torch.ops.random import DISTRIBUTIONS
from habana_tf.torch.record import current, random_state
from habana_tf.torch.record.overload import NotRecorded, Overload, overload_of

Generator: TypeAlias = "torch.Generator | None"
_WORDS = 4
"""32-bit words of a block of a random stream."""
_LONG, _PIECE = 1 << 26, 1 << 24
"""Elements from which a tensor is filled piece by piece, and elements of a piece: a program needs up to 16 bytes of
random words for each element."""


_KINDS = {name: ".float" if name == "bernoulli" else "" for name in DISTRIBUTIONS}
"""The overloads that fill a tensor from a distribution: name of the distribution, and end of the overload's name."""


class Composed:
    """own: the rows of our own ops, by name."""

    def __init__(self, own: dict[str, Overload]) -> None:
        self.own = own

    def kernels(self) -> dict[str, Callable[..., Any]]:
        """The kernels, by overload."""
        return {
            **{f"{name}_{kind}": partial(self._from, name, kind) for name, kind in _KINDS.items()},
            "bernoulli_.Tensor": self.bernoulli_by_,
            "random_": self.random_, "random_.to": self.random_to_, "random_.from": self.random_from_,
            "native_dropout": self.native_dropout, "randperm": self.randperm,
            "randperm.generator": self.randperm_by, "multinomial": self.multinomial, "arange": self.arange,
            "arange.start": self.arange_start, "arange.start_step": self.arange_step, "linspace": self.linspace,
        }  # fmt: skip

    def _record(self, name: str, args: Sequence[Any]) -> Any:
        return current.recorder().record(self.own[f"{NAMESPACE}{name}"], args, {})

    def _record_or_run(
        self, name: str, args: Sequence[Any], overload: Any, given: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Records one of our ops; where no program can have it, runs PyTorch's overload on the CPU."""
        try:
            return self._record(name, args)
        except NotRecorded as why:
            return fallback.run(overload, given, options, str(why))

    def _drawn(
        self, overload: Any, name: str, x: torch.Tensor, numbers: Sequence[Any], generator: Generator,
        words: int = 1, given: Sequence[Any] | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Fills x by one of our ops, with `numbers`. given: the arguments of PyTorch's overload, where they are
        others."""
        given = numbers if given is None else given
        overload(torch.empty(0, dtype=x.dtype, device="cpu"), *(a for a in given if not isinstance(a, torch.Tensor)))
        if not x.numel():
            return x
        if x.numel() > _LONG and x.is_contiguous():
            for piece in x.view(-1).split(_PIECE):
                self._drawn(overload, name, piece, numbers, generator, words, given)
                current.recorder().flush()  # else all pieces' words would be there at once
            return x
        blocks = -(-x.numel() * words // _WORDS)
        drawn = (x, *numbers, *random_state.take(generator, blocks))
        self._record_or_run(name, drawn, overload, (x, *given), {"generator": generator})
        return x

    # -- numbers of a distribution ------------------------------------------------------------------------

    def _from(self, name: str, kind: str, x: torch.Tensor, *given: float, generator: Generator = None) -> torch.Tensor:
        """Fills x from a distribution."""
        overload = overload_of(f"{name}_{kind}")
        distribution = DISTRIBUTIONS[name]
        rest: list[Any] = [*distribution.defaults.values()][len(given) :]
        numbers = [float(n) for n in (*given, *rest)]
        return self._drawn(overload, f"{name}_", x, numbers, generator, distribution.words)

    def bernoulli_by_(self, x: torch.Tensor, p: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
        drawn = (x, p, *random_state.take(generator, -(-x.numel() // _WORDS)))
        self._record_or_run("bernoulli_by_", drawn, torch.ops.aten.bernoulli_.Tensor, (x, p), {"generator": generator})
        return x

    # -- whole numbers ------------------------------------------------------------------------------------

    def random_(self, x: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
        if x.dtype.is_floating_point:
            count = round(2 / torch.finfo(x.dtype).eps) + 1
        else:
            count = 2 if x.dtype is torch.bool else torch.iinfo(x.dtype).max + 1
        return self._whole(x, 0, count, generator, torch.ops.aten.random_.default, ())

    def random_to_(self, x: torch.Tensor, to: int, *, generator: Generator = None) -> torch.Tensor:
        low, end = _representable(x.dtype, 0, to)
        return self._whole(x, low, end - low, generator, torch.ops.aten.random_.to, (to,))

    def random_from_(self, x: torch.Tensor, start: int, to: int | None, *, generator: Generator = None) -> torch.Tensor:
        low, end = _representable(x.dtype, start, to)
        return self._whole(x, low, end - low, generator, getattr(torch.ops.aten.random_, "from"), (start, to))

    def _whole(
        self, x: torch.Tensor, low: int, count: int, generator: Generator, overload: Any, given: Sequence[Any]
    ) -> torch.Tensor:
        signed = count - (1 << 64) if count >> 63 else count  # 2**64 is 0
        return self._drawn(overload, "random_", x, (low, signed), generator, 2, given)

    # -- others -------------------------------------------------------------------------------------------

    def native_dropout(self, x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
        if train is False or p == 0 or not x.numel():
            return x.clone(), torch.ones_like(x, dtype=torch.bool)
        if p == 1:
            return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
        given = (x, float(p), *random_state.take(None, -(-x.numel() // _WORDS)))
        overload = torch.ops.aten.native_dropout.default
        made: tuple[torch.Tensor, torch.Tensor] = self._record_or_run("dropout", given, overload, (x, p, train), {})
        return made

    def randperm(self, n: int, **options: Any) -> torch.Tensor:
        return self.randperm_by(n, None, **options)

    def randperm_by(
        self, n: int, generator: Generator, *, dtype: torch.dtype | None = None, **options: Any
    ) -> torch.Tensor:
        kind = torch.int64 if dtype is None else dtype
        torch.empty(0, dtype=kind, device="cpu").random_(0, max(n, 1))
        if n <= 0 or n > MOST_SORTED or kind is torch.float64:
            overload = torch.ops.aten.randperm.generator
            why = "it is empty, of float64, or of more than 2**31 numbers"
            made = fallback.run(overload, (n,), {"generator": generator, "dtype": kind}, why)
        else:
            made = self._record("permutation", (n, *random_state.take(generator, -(-n // 2)))).to(kind)
        return made

    def multinomial(
        self, p: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Generator = None
    ) -> torch.Tensor:
        """As PyTorch computes it for other cards."""
        drawn = torch.empty((*p.shape[:-1], num_samples), dtype=torch.int64, device="meta")
        one = num_samples == 1
        many = p.dim() in (1, 2) and (p.shape[-1] > 1 << 24 or not replacement and num_samples > p.shape[-1])
        if p.dim() not in (1, 2) or num_samples < 1 or many or not p.numel():
            why = "it is empty, or an error"
        elif p.dtype not in (torch.float32, torch.bfloat16):
            why = f"no program draws by weights of {p.dtype}"
        else:
            why = ""
        if why:
            overload = torch.ops.aten.multinomial.default
            args = (p, num_samples, replacement)
            made = fallback.run(overload, args, {"generator": generator}, why)
        elif replacement and not one:
            blocks = -(-drawn.numel() // _WORDS)
            made = self._record("choices", (p, num_samples, *random_state.take(generator, blocks)))
        else:
            waited = self._record("race", (p, *random_state.take(generator, -(-p.numel() // _WORDS))))
            made = waited.argmax(-1, keepdim=True) if one else waited.topk(num_samples)[1]
        return made

    def arange(self, end: Any, **options: Any) -> torch.Tensor:
        return self.arange_step(0, end, 1, **options)

    def arange_start(self, start: Any, end: Any, **options: Any) -> torch.Tensor:
        return self.arange_step(start, end, 1, **options)

    def arange_step(
        self, start: Any, end: Any, step: Any = 1, *, dtype: torch.dtype | None = None, **options: Any
    ) -> torch.Tensor:
        like = torch.arange(start, end, step, dtype=dtype, device="meta")
        exact = all(float(n).is_integer() and abs(n) < 1 << 53 for n in (start, end, step))
        whole = not like.dtype.is_floating_point or exact
        first, by = (int(n) if whole else float(n) for n in (start, step))
        made: torch.Tensor = self._record_or_run(
            "sequence", (like.numel(), first, by, like.dtype), torch.ops.aten.arange.start_step, (start, end, step),
            {"dtype": like.dtype, "device": "cpu"},
        )  # fmt: skip
        return made

    def linspace(
        self, start: Any, end: Any, steps: int, *, dtype: torch.dtype | None = None, **options: Any
    ) -> torch.Tensor:
        like = torch.linspace(start, end, steps, dtype=dtype, device="meta")
        overload, given = torch.ops.aten.linspace.default, (start, end, steps)
        options = {"dtype": like.dtype, "device": "cpu"}
        if like.dtype.is_floating_point:
            args = (steps, float(start), float(end), like.dtype)
            made: torch.Tensor = self._record_or_run("between", args, overload, given, options)
        else:
            made = fallback.run(overload, given, options, "whole numbers are rounded from float64")
        return made


def _representable(dtype: torch.dtype, start: int, end: int | None) -> tuple[int, int]:
    """The integers from `start` on and before `end` (None: all of the type) that PyTorch draws. For floats it leaves
    out those at both ends that would be rounded out of the range."""
    if not dtype.is_floating_point:
        return start, (2 if dtype is torch.bool else torch.iinfo(dtype).max + 1) if end is None else end
    digits = 1 - math.frexp(torch.finfo(dtype).eps)[1] + 1

    def rounded(n: int) -> int:
        return int(torch.tensor(n, dtype=torch.int64).to(dtype))

    def spacing(n: int) -> int:
        return 1 << max(abs(n).bit_length() - digits, 0)

    if (first := rounded(start + 1)) < start:
        start = first + spacing(start + 1)
    if end is None:
        return start, (1 << digits) + 1
    if (last := rounded(end - 1)) >= end:
        end = last - spacing(end - 1)
    return start, end
