"""What looking into a large recipe cache takes: `habana-tf recipes ACTION`, from its start to its end.

    python tests/benchmarks/listing.py --entries 1000 --runs 20

The cache is made for it: a quarter of its entries are like recipes of clusters, the rest like those of single ops. A
line per action has the median and the extremes of its wall times in milliseconds, beside those of a Python that does
nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key

ACTIONS = ("list", "list --all", "list --json", "stats", "verify", "path")
OPS = ("MatMul", "BiasAdd", "Relu", "Conv2D", "FusedBatchNormV3", "AddV2", "Mul", "Cast", "Sum", "Const", "Reshape",
       "MaxPool", "Softmax", "AssignSubVariableOp", "Shape", "Pack", "StridedSlice", "Exp", "Tanh")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Wall times of looking into a large recipe cache.")
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--actions", nargs="+", default=ACTIONS)
    options = parser.parse_args(arguments)
    program = shutil.which("habana-tf", path=os.path.dirname(sys.executable))
    command = [program] if program else [sys.executable, "-m", "habana_tf.cli"]
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, options.entries)
        _report("python -c pass", [sys.executable, "-c", "pass"], options.runs)
        for action in options.actions:
            line = [*command, "recipes", *action.split(), "--path", folder]
            _report(f"habana-tf recipes {action}", line, options.runs)


def fill(root: str, count: int) -> None:
    """Writes `count` entries into the cache directory `root`."""
    store, draw = Store(root), random.Random(0)
    for seed in range(count):
        several = seed % 4 == 0
        what = ("cluster", draw.randbytes(32).hex()) if several else ("program", f"INPUT[s0]float32 {seed}\n" * 8)
        key = Key.of([what, ("inputs", [["float32", [64, 8, 8, seed]]]), ("compiler", "c" * 64)])
        ops = {op: draw.randint(1, 20) for op in draw.sample(OPS, 14)} if several else {draw.choice(OPS): 1}
        tensors = [{"dtype": "float32", "shape": [64, 8, 8, seed]}] * (20 if several else 2)
        head = {
            "name": f"cluster_{seed:012x}" if several else next(iter(ops)), "digest": key.digest, "key": key.manifest(),
            "created": 1.7e9 + seed, "compile_seconds": draw.random(), "ops": ops, "scopes": {"net": 3},
            "inputs": tensors, "takes": f"float32[64,8,8,{seed}], float32[3,3]", "outputs": tensors,
            "tools": {"llvm": "22.1"},
        }  # fmt: skip
        object_ = draw.randbytes(20_000 if several else 4_000)
        sections = {"plan": b"{}" * 200, "kernels": draw.randbytes(800), "constants": b"", "object": object_}
        if not store.write(Entry(head, sections)):
            raise SystemExit(f"cannot write to {root}")


def _report(name: str, command: list[str], runs: int) -> None:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        times.append(1e3 * (time.perf_counter() - start))
    print(f"{name}: {statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})", flush=True)


if __name__ == "__main__":
    main()
