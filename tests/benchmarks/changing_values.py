"""What ops cost whose fixed inputs are data, over many different values: on HPU beside stock TensorFlow, as a table.

    python tests/benchmarks/changing_values.py [--only NAME ...] [--calls 100] [--function]

Per case of tests/device/changing_values.py: recipes that were compiled, signatures that were left to the CPU,
milliseconds of a call (the median of all, and of the second half) on HPU and on stock, and what the process kept
afterwards: KiB of resident memory and mappings.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("HABANA_SIM_LOG", "error")
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import tensorflow as tf

import habana_tf
from habana_tf.resolver import recompilations
from tests.device.changing_values import CASES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--function", action="store_true", help="in a tf.function of unknown shapes, not eagerly")
    given = parser.parse_args()
    habana_tf.load_habana_module()
    with tf.device("/HPU:0"):  # what the first compilation loads
        tf.linalg.band_part(tf.ones([3, 3]), 1, 1).numpy()
    print(f"{'case':38}{'compiled':>9}{'on CPU':>8}{'ms':>8}{'later':>8}{'stock':>8}{'KiB':>8}{'maps':>6}", flush=True)
    for name in given.only or CASES:
        row = measured(name, given.calls, given.function)
        print(
            f"{name:38}{row['compiled']:9}{row['on CPU']:8}{row['ms']:8.2f}{row['later']:8.2f}{row['stock']:8.2f}"
            f"{row['kib']:8}{row['maps']:6}", flush=True,
        )  # fmt: skip


def measured(name: str, calls: int, function: bool) -> dict[str, Any]:
    """The row of a case."""
    make, call = CASES[name]
    rng = np.random.default_rng(0)
    given = [[tf.constant(x) for x in make(rng, k)] for k in range(calls)]
    run = tf.function(call, reduce_retracing=True) if function else call

    def timed(device: str) -> list[float]:
        out = []
        for x in given:
            with tf.device(device):
                start = time.perf_counter()
                for t in tf.nest.flatten(run(*x)):
                    t.numpy()
                out.append((time.perf_counter() - start) * 1e3)
        return out

    timed("/CPU:0")
    stock = timed("/CPU:0")
    recompilations.reset()
    before = kept()
    hpu = timed("/HPU:0")
    after = kept()
    report = recompilations.recompilation_report()
    counts = [*report.one_op.values(), *(c.counts for c in report.clusters)]
    return {
        "compiled": sum(c.get("compiled", 0) for c in counts),
        "on CPU": sum(c.get("interpreted", 0) + c.get("cpu", 0) for c in counts),
        "ms": statistics.median(hpu), "later": statistics.median(hpu[len(hpu) // 2 :]),
        "stock": statistics.median(stock), "kib": after[0] - before[0], "maps": after[1] - before[1],
    }  # fmt: skip


def kept() -> tuple[int, int]:
    """KiB of resident memory of this process, and its mappings."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), Path("/proc/self/maps").read_bytes().count(b"\n")


if __name__ == "__main__":
    main()
