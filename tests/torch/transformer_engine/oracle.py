"""Delayed scaling as NVIDIA publishes it, in float64 and PyTorch's casts on the CPU: what the modules must give."""

from __future__ import annotations

import math

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


class Scale:
    """Of one tensor in one type."""

    def __init__(self, kind: torch.dtype, end: float, margin: int = 0) -> None:
        self.kind, self.end, self.margin, self.scale = kind, end, margin, 1.0

    def update(self, amax: float) -> None:
        if amax > 0 and math.isfinite(amax):
            self.scale = 2.0 ** (math.floor(math.log2(self.end / amax)) - self.margin)

    def cast(self, x: torch.Tensor) -> torch.Tensor:
        """What is left of x after the cast, in float64."""
        scaled = (x.detach().float() * self.scale).clamp(-self.end, self.end)
        return scaled.to(self.kind).double() / self.scale


class Layer:
    """A linear layer and its gradients. ends: the largest number of E4M3 and of E5M2 on the chip."""

    def __init__(
        self, forward: torch.dtype, backward: torch.dtype, ends: dict[torch.dtype, float], history: int, largest: bool,
        interval: int = 1, margin: int = 0,
    ) -> None:  # fmt: skip
        of = lambda kind: Scale(kind, ends[kind], margin)
        self.there, self.back, self.gradient = [of(forward), of(forward)], [of(backward), of(backward)], of(backward)
        self.seen: list[list[float]] = [[], [], []]
        self.history, self.largest, self.interval, self.run = history, largest, interval, 0

    def step(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
        """The result, and the gradients of x, w and b."""
        self.run += 1
        if self.run % self.interval == 1 % self.interval:
            for k, scales in enumerate(zip([*self.there, self.gradient], [*self.back, self.gradient], strict=True)):
                window = self.seen[k][-self.history :]
                amax = (max(window) if self.largest else window[-1]) if window else 0.0
                for scale in scales:
                    scale.update(amax)
        if (self.run - 1) % self.interval >= self.interval - self.history:
            for seen, t in zip(self.seen, (x, w, g), strict=True):
                seen.append(t.abs().max().item())
        x4, w4 = (scale.cast(t) for scale, t in zip(self.there, (x, w), strict=True))
        x5, w5 = (scale.cast(t) for scale, t in zip(self.back, (x, w), strict=True))
        g5 = self.gradient.cast(g)
        return [x4 @ w4.T + b.double(), g5 @ w5, g5.T @ x5, g.double().sum(0)]
