"""Runs cases: `python -m tests.keras_coverage.run hpu result.npz losses/mse metrics/Mean`.

The device is "hpu" or "stock". Saved are, per case, all numbers its steps gave, as arrays "<family>/<name>/<k>" in
their order. The last line of output is a JSON object: per case the ops that ran on the CPU with the reason, the
launches of its last step, and the error of one that failed.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

STEPS = 2


def on_cpu() -> dict[tuple[str, str], int]:
    """How often ops were left to the CPU so far, by (op, reason)."""
    import habana_tf

    rows = habana_tf.placement_report().to_dict()["refused"]
    return {(row["op"], row["reason"]): row["count"] for row in rows if row["device"] == "CPU"}


def launches() -> int:
    """How many launches this process has made so far."""
    from habana_tf._native import _bridge

    return int(_bridge.counters()["launches"])


def run(prepare: Any, eagerly: bool, count: Callable[[], int]) -> tuple[list[Any], int]:
    """What the steps of a case give, in order, and what the last one counts. Eagerly, an op that HPU does not have is
    an error."""
    tf.keras.utils.set_random_seed(7)
    tf.config.set_soft_device_placement(not eagerly)
    step = prepare() if eagerly else tf.function(prepare())
    flat, before = [], 0
    for _ in range(STEPS):
        before = count()
        flat += tf.nest.flatten(step(), expand_composites=True)
    arrays = [t.numpy() for t in flat if tf.is_tensor(t)]
    return arrays, count() - before


def main(device: str, path: str, *cases: str) -> None:
    from tests.keras_coverage.cases import tables
    from tests.keras_coverage.layers import NO_GRAPH

    if device == "hpu":
        import habana_tf

        habana_tf.load_habana_module()
    arrays: dict[str, Any] = {}
    report: dict[str, Any] = {}
    everything = tables()
    for case in cases:
        family, _, name = case.partition("/")
        prepare = everything[family][name]
        before = on_cpu() if device == "hpu" else {}
        error, counted = None, 0
        try:
            with tf.device("/HPU:0" if device == "hpu" else "/CPU:0"):
                given, counted = run(prepare, case in NO_GRAPH, launches if device == "hpu" else lambda: 0)
            arrays.update({f"{case}/{i}": a for i, a in enumerate(given)})
        except Exception:
            error = traceback.format_exc()[-3000:]
        after = on_cpu() if device == "hpu" else {}
        left = [[op, reason] for (op, reason), n in after.items() if n > before.get((op, reason), 0)]
        report[case] = {"on_cpu": left, "launches": counted, "error": error}
    np.savez(path, **arrays)
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
