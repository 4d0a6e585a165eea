"""How scales of 8-bit tensors are chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch

from habana_tf.torch.hpu_ops import float8

__all__ = ["DelayedScaling", "Format"]

_E4M3, _E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@dataclass(frozen=True)
class Kinds:
    """The types of tensors in forward passes, and of gradients."""

    forward: torch.dtype
    backward: torch.dtype

    @property
    def max_fwd(self) -> float:
        """The largest number of `forward` on the simulated chip."""
        return float8.largest(self.forward)

    @property
    def max_bwd(self) -> float:
        """The largest number of `backward` on the simulated chip."""
        return float8.largest(self.backward)


class Format(Enum):
    """Which 8-bit floats are used. HYBRID: E4M3 in forward passes, E5M2 for gradients and what they are multiplied
    with."""

    E4M3 = Kinds(_E4M3, _E4M3)
    E5M2 = Kinds(_E5M2, _E5M2)
    HYBRID = Kinds(_E4M3, _E5M2)


@dataclass
class DelayedScaling:
    """Scales from the largest sizes (amax) that a tensor had in earlier runs of its module:

    scale = 2 ** (floor(log2(largest / amax)) - margin)

    where `largest` is that of the type of the chip. An amax of 0, or that is not finite, leaves a scale as it was.

    interval: how many runs have the same scales; what is measured are the last amax_history_len of them.
    amax_compute_algo: "max" takes the largest of the history, "most_recent" the newest, a function of the history,
    [runs, tensors] with the newest first, what it returns. scaling_factor_compute_algo: a function of (amax, old scale,
    largest, recipe) in place of the formula. reduce_amax: whether ranks of the group take the largest of all.
    override_linear_precision: forward pass, gradient of the input, gradient of the weight in high precision; of these
    only the last can be. Raises ValueError for another choice.
    """

    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: str | Callable[[torch.Tensor], torch.Tensor] = "most_recent"
    override_linear_precision: tuple[bool, bool, bool] = (False, False, False)
    scaling_factor_compute_algo: Callable[..., torch.Tensor] | None = None
    reduce_amax: bool = True

    def __post_init__(self) -> None:
        if self.interval < 1 or self.amax_history_len < 1:
            raise ValueError("DelayedScaling: interval and amax_history_len are at least 1")
        if self.amax_compute_algo not in ("max", "most_recent") and not callable(self.amax_compute_algo):
            raise ValueError(
                f"DelayedScaling: amax_compute_algo is max, most_recent or a function, not {self.amax_compute_algo!r}"
            )
        if not isinstance(self.fp8_format, Format):
            raise ValueError(f"DelayedScaling: fp8_format is one of {[*map(str, Format)]}, not {self.fp8_format!r}")
        if any(self.override_linear_precision[:2]):
            raise ValueError("DelayedScaling: override_linear_precision can be (False, False, True) only")
