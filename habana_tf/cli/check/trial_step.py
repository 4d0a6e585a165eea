"""The training step that `habana-tf check` tries, of either framework."""

from __future__ import annotations

from typing import Any


def inputs() -> list[Any]:
    """Input and weights of the step, fp32 [64, 96] and [96, 32]."""
    import numpy as np

    drawn = np.random.default_rng(7)
    return [drawn.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 32))]
