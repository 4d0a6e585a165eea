"""The program that `habana-tf check` runs in a process of its own, once for each framework: loads HPU, compiles a small
step, compares it with the CPU.

It says in lines of JSON what it begins and what came of it, so that a crash, which ends it in the middle, is known to
be in the stage that was begun last. All else that it or the framework prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from habana_tf.cli.check import trial_tensorflow, trial_torch
from habana_tf.cli.check.trial_step import Stage
from habana_tf.hardware.device_state import PYTORCH, TENSORFLOW

STAGES: dict[str, dict[str, Stage]] = {TENSORFLOW: trial_tensorflow.STAGES, PYTORCH: trial_torch.STAGES}
"""Of each framework, in their order; the first imports it. `device.py` names its findings after them."""


def main(framework: str) -> None:
    """Runs the stages of a framework. Each gets what the ones before have left in `kept`; after one that failed only
    Horovod, which needs TensorFlow alone, is still tried."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    kept: dict[str, Any] = {}
    failed = False
    for name, stage in STAGES[framework].items():
        if failed and (name != "Horovod" or "tf" not in kept):
            continue
        say(stage=name)
        start = time.perf_counter()
        try:
            found = stage(kept)
            say(stage=name, found=found, seconds=time.perf_counter() - start, cpu=kept.get("cpu"))
        except Exception as error:
            failed = True
            say(stage=name, error=f"{type(error).__name__}: {error}", cpu=kept.get("cpu"))
