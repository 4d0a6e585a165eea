"""The training step that `habana-tf check` tries, of either framework: its inputs, that it is compiled, its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Stage = Callable[[dict[str, Any]], dict[str, Any]]
"""One stage of a trial: gets what the stages before have kept; returns what is said of it."""
_WORST = 1e-5
"""Between sums of 96 products of fp32, whose order of additions differs: some tens of roundings of 6e-8."""


def compiled(kept: dict[str, Any], run: Callable[[], list[Any]], framework: str) -> dict[str, Any]:
    """Keeps the results of `run`, a training step in miniature: no recipe that comes with the package is for it, so it
    is compiled here. Raises RuntimeError where it is not."""
    from habana_tf.cache import stats
    from habana_tf.cli.machine import cpu_facts

    kept["cpu"] = cpu_facts()
    before = stats().counts().compiled
    kept["results"] = run()
    if stats().counts().compiled == before:
        raise RuntimeError(f"{framework} ran a training step on HPU without a recipe: habana_tf.placement_report() of "
                           "such a program says why")  # fmt: skip
    return {}


def compared(kept: dict[str, Any], expected: list[Any]) -> dict[str, Any]:
    """How far the step's results are from the CPU's. Raises RuntimeError where that is too far."""
    import numpy as np

    off = max(
        float(np.max(np.abs(got - right)) / np.max(np.abs(right)))
        for got, right in zip(kept["results"], expected, strict=True)
    )
    if not off <= _WORST:  # also NaN
        raise RuntimeError(f"a training step on HPU differs from the CPU's by {off:.1e} of its greatest number")
    return {"off": off}


def inputs() -> list[Any]:
    """Input and weights of the step, fp32 [64, 96] and [96, 32]."""
    import numpy as np

    drawn = np.random.default_rng(7)
    return [drawn.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 32))]
