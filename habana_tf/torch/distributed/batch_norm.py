"""The overloads of torch.nn.SyncBatchNorm, which PyTorch has for GPUs only, as formulas of others.

x has channels on its second axis. Statistics are float32, whatever x is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_LIBRARY: list[Any] = []


def _axes(x: Tensor) -> list[int]:
    """All but the channels."""
    return [0, *range(2, x.dim())]


def _over(channels: Tensor, x: Tensor) -> Tensor:
    """A vector of the channels, to be broadcast over x."""
    return channels.float().view(1, -1, *[1] * (x.dim() - 2))


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean, and inverse of the standard deviation, of a rank's x."""
    wide = x.float()
    mean = wide.mean(_axes(x))
    return mean, torch.rsqrt((wide - _over(mean, x)).square().mean(_axes(x)) + eps)


def gather_stats(
    x: Tensor, means: Tensor, invstds: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    momentum: float, eps: float, counts: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same of all ranks' x, from those of each, [ranks, channels], and its numbers of elements per channel."""
    n = counts.float().view(-1, 1)
    total = n.sum()
    mean = (means * n).sum(0) / total
    var = ((1.0 / invstds.square() - eps + (means - mean).square()) * n).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(var * (total / (total - 1)) * momentum)
    return mean, torch.rsqrt(var + eps)


def elemt(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:  # fmt: skip
    """x normalized."""
    scale = invstd if weight is None else invstd * weight
    made = (x.float() - _over(mean, x)) * _over(scale, x)
    return (made if bias is None else made + _over(bias, x)).to(x.dtype)


def backward_reduce(
    dy: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    input_g: bool, weight_g: bool, bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """A rank's sums of dy and of dy * (x - mean), and its gradients of weight and bias."""
    wide = dy.float()
    sums = wide.sum(_axes(x))
    moments = (wide * (x.float() - _over(mean, x))).sum(_axes(x))
    dtype = torch.float32 if weight is None else weight.dtype
    scaled = (moments * invstd).to(dtype) if weight_g else None
    return sums, moments, scaled, sums.to(dtype) if bias_g else None


def backward_elemt(
    dy: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None, sums: Tensor, moments: Tensor,
    counts: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of x. sums, moments: of all ranks."""
    total = counts.float().sum()
    scale = invstd if weight is None else invstd * weight
    slope = invstd.square() * moments / total
    made = dy.float() - _over(sums / total, x) - (x.float() - _over(mean, x)) * _over(slope, x)
    return (made * _over(scale, x)).to(x.dtype)


def register() -> None:
    """Gives the device these overloads."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in {
        "stats": stats, "gather_stats_with_counts": gather_stats, "elemt": elemt,
        "backward_reduce": backward_reduce, "backward_elemt": backward_elemt,
    }.items():  # fmt: skip
        library.impl(f"batch_norm_{name}", kernel, "PrivateUse1")
    _LIBRARY.append(library)
