"""The program that `habana-tf check` runs in a process of its own, once for each framework: loads HPU, compiles a small
step, compares it with the CPU.

It says in lines of JSON what it begins and what came of it, so that a crash, which ends it in the middle, is known to
be in the stage that was begun last. All else that it or the framework prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from habana_tf.cli.check import trial_tensorflow, trial_torch
from habana_tf.hardware.device_state import PYTORCH, TENSORFLOW

_FRAMEWORKS: dict[str, ModuleType] = {TENSORFLOW: trial_tensorflow, PYTORCH: trial_torch}
"""What each has of its own: `load` imports it and gives its version, `device` loads HPU and says where an op ran,
`step` gives the results of a training step on a device, "hpu" or "cpu", for these inputs; `MORE` has further stages."""
STAGES = {name: (name, "HPU", "compiler", "numbers", *module.MORE) for name, module in _FRAMEWORKS.items()}
"""Of each framework, in their order; the first imports it. `device.py` names its findings after them."""
_WORST = 1e-5
"""Between sums of 96 products of fp32, whose order of additions differs: some tens of roundings of 6e-8."""


def main(framework: str) -> None:
    """Runs the stages of a framework; after one that failed only Horovod, which needs TensorFlow alone, is tried."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module = _FRAMEWORKS[framework]
    of: dict[str, Any] = {"cpu": None}

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    stages: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"version": module.load()},
        lambda: {"device": module.device()},
        lambda: _compiled(of, lambda: module.step("hpu", _inputs()), framework),
        lambda: _compared(of["results"], module.step("cpu", _inputs())),
        *module.MORE.values(),
    )
    failed: list[str] = []
    for name, stage in zip(STAGES[framework], stages, strict=True):
        if failed and (name not in module.MORE or framework in failed):
            continue
        say(stage=name)
        start = time.perf_counter()
        try:
            found = stage()
            say(stage=name, found=found, seconds=time.perf_counter() - start, cpu=of["cpu"])
        except Exception as error:
            failed.append(name)
            say(stage=name, error=f"{type(error).__name__}: {error}", cpu=of["cpu"])


def _inputs() -> list[Any]:
    """Input and weights of the step, fp32 [64, 96] and [96, 32]."""
    import numpy as np

    drawn = np.random.default_rng(7)
    return [drawn.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 32))]


def _compiled(of: dict[str, Any], run: Callable[[], list[Any]], framework: str) -> dict[str, Any]:
    """Keeps the results of `run`, a training step in miniature: no recipe that comes with the package is for it, so it
    is compiled here. Raises RuntimeError where it is not."""
    from habana_tf.cache import stats
    from habana_tf.cli.machine import cpu_facts

    of["cpu"] = cpu_facts()
    before = stats().counts().compiled
    of["results"] = run()
    if stats().counts().compiled == before:
        raise RuntimeError(f"{framework} ran a training step on HPU without a recipe: habana_tf.placement_report() of "
                           "such a program says why")  # fmt: skip
    return {}


def _compared(results: list[Any], expected: list[Any]) -> dict[str, Any]:
    """How far the step's results are from the CPU's. Raises RuntimeError where that is too far."""
    import numpy as np

    pairs = zip(results, expected, strict=True)
    off = max(float(np.max(np.abs(got - right)) / np.max(np.abs(right))) for got, right in pairs)
    if not off <= _WORST:  # also NaN
        raise RuntimeError(f"a training step on HPU differs from the CPU's by {off:.1e} of its greatest number")
    return {"off": off}
