"""Whether `make test` finds a bug: thirty of them, made by hand, one operator, bound or type each, in every room.

    make dev && .venv/bin/python -m tests.hand_made_bugs            # twenty minutes
    .venv/bin/python -m tests.hand_made_bugs --only 4 17

Each is made in the sources, the tests named beside it run (all of them are in `make test`), and the file is put back.
With --whole, what they do not find is looked for by all of `make test`. The sources have to be as git has them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

WHOLE = ["tests", "--ignore", "tests/networks", "-n2", "--dist", "loadfile"]
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Bug:
    """`old` stands in `file` once; `tests` are what should fail when it is `new`."""

    file: str
    old: str
    new: str
    tests: str


BUGS = [
    Bug(
        "habana_tf/tensorflow/graph/partition.py",
        "theirs != key or (node, consumer) in cuts",
        "theirs != key",
        "tests/tensorflow/graph",
    ),
    Bug(
        "habana_tf/tensorflow/graph/partition.py",
        "rim = not inward or not any",
        "rim = not inward and not any",
        "tests/tensorflow/graph/test_partition.py tests/tensorflow/graph/test_launch_nodes.py "
        "tests/tensorflow/graph/test_pipeline.py",
    ),
    Bug(
        "habana_tf/tensorflow/graph/bf16.py",
        "if row.variables or row.updates:",
        "if row.updates:",
        "tests/tensorflow/graph/test_bf16.py",
    ),
    Bug(
        "habana_tf/tensorflow/graph/bf16.py",
        "(Why.ALLOWED, Why.CONDITIONAL, Why.STRICT, Why.FORCED)",
        "(Why.ALLOWED, Why.CONDITIONAL, Why.FORCED)",
        "tests/tensorflow/graph/test_bf16.py tests/tensorflow/graph/test_bf16_lists.py",
    ),
    Bug(
        "habana_tf/cluster/ranges.py",
        "if not isinstance(n, int) or n < 1:",
        "if not isinstance(n, int) or n < 0:",
        "tests/cluster tests/device/test_ranges.py",
    ),
    Bug("habana_tf/cluster/ranges.py", "None if others or rest else", "None if others else", "tests/cluster"),
    Bug(
        "habana_tf/tensorflow/lowering/pooling.py",
        'b.reduce("sum", b.select(mine, flat',
        'b.reduce("max", b.select(mine, flat',
        "tests/tensorflow/lowering/test_pooling.py",
    ),
    Bug(
        "habana_tf/tensorflow/lowering/pooling.py",
        "b.reshape(x, [*x.shape[:-1], n // group, group])",
        "b.reshape(x, [*x.shape[:-1], group, n // group])",
        "tests/tensorflow/lowering/test_pooling.py",
    ),
    Bug("habana_tf/ir/conditions.py", "self.dims) >= 0", "self.dims) > 0", "tests/ir tests/cluster"),
    Bug("habana_tf/compiler/memory_plan.py", "if c < value.first]", "if c <= value.first]", "tests/compiler"),
    Bug("habana_tf/compiler/memory_plan.py", "if s >= size]", "if s > size]", "tests/compiler/test_memory_plan.py"),
    Bug(
        "habana_tf/compiler/in_place.py",
        "pair[0].op is not Op.SCATTER or pair[0] in outputs",
        "pair[0].op is not Op.SCATTER",
        "tests/compiler/test_in_place.py",
    ),
    Bug(
        "habana_tf/compiler/split_reductions.py",
        "inner.append(len(wide) - 1)",
        "inner.append(axis)",
        "tests/compiler",
    ),
    Bug(
        "habana_tf/compiler/body_builder.py",
        "for k in range(len(guard), -1, -1):",
        "for k in range(len(guard), 0, -1):",
        "tests/compiler tests/tensorflow/lowering/test_array.py tests/tensorflow/lowering/test_joining.py",
    ),
    Bug(
        "habana_tf/compiler/copied_elements.py",
        "if any(view.strides[k]",
        "if all(view.strides[k]",
        "tests/compiler/test_copied_elements.py",
    ),
    Bug("habana_tf/compiler/compile.py", "last[source] == at", "last[source] >= at", "tests/compiler"),
    Bug(
        "habana_tf/resolver/key_text.py",
        "for name in names(type(self._program)):",
        "for name in names(type(self._program))[:3]:",
        "tests/resolver tests/device/test_ranges.py tests/device/test_kinds.py",
    ),
    Bug(
        "habana_tf/resolver/recipes.py",
        "while len(self._keys) > self._most:",
        "while len(self._keys) > self._most + 1:",
        "tests/resolver",
    ),
    Bug(
        "habana_tf/resolver/recipes.py",
        "self._bytes > self._most_bytes and len",
        "self._bytes < self._most_bytes and len",
        "tests/resolver",
    ),
    Bug("habana_tf/cache/bounds.py", "total > keep_bytes", "total >= keep_bytes", "tests/cache"),
    Bug(
        "habana_tf/cache/bounds.py",
        "max(minimum_age, MINIMUM_AGE) if f.temporary",
        "minimum_age if f.temporary",
        "tests/cache",
    ),
    Bug(
        "habana_tf/cache/reader.py",
        'return self.mode in ("rw", "refresh")',
        'return self.mode in ("rw",)',
        "tests/cache",
    ),
    Bug("habana_tf/hardware/roofline.py", "max(nbytes / chip", "min(nbytes / chip", "tests/hardware"),
    Bug(
        "habana_tf/hardware/telemetry.py",
        "if kind != fcntl.F_UNLCK:",
        "if kind == fcntl.F_UNLCK:",
        "tests/hardware tests/cli/smi",
    ),
    Bug("habana_tf/launcher/plan.py", "if job.count % len(hosts):", "if job.count < len(hosts):", "tests/launcher"),
    Bug(
        "habana_tf/hardware/exchange.py",
        "if not np.all(met[:, 0] == met[0, 0]):",
        "if not np.any(met[:, 0] == met[0, 0]):",
        "tests/distribute/test_shared_memory.py tests/launcher/test_hosts.py",
    ),
    Bug("kernels/runtime/resolver.cc", "(in.nbytes + 7) / 8", "in.nbytes / 8", "tests/device"),
    Bug(
        "kernels/runtime/program_checks.cc",
        "end > program_.outputs[index].nbytes",
        "end >= program_.outputs[index].nbytes",
        "tests/device/test_launch.py tests/compiler",
    ),
    Bug(
        "kernels/runtime/thread_pool.cc",
        "std::min(grid_, parts.end * part_)",
        "parts.end * part_",
        "tests/compiler tests/device/test_threads.py",
    ),
    Bug(
        "kernels/runtime/program.cc",
        "if (in.data == args.outputs[copy.output])",
        "if (in.data != args.outputs[copy.output])",
        "tests/device",
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes bugs, and tells which of them the tests find.")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of the bugs to make")
    parser.add_argument("--whole", action="store_true", help="run all tests where those named do not find a bug")
    options = parser.parse_args()
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout:
        sys.exit("The sources are not as git has them: commit or put aside what was changed, it might be lost.")
    missed = []
    print("| number | file | instead of | stands | found by | seconds |\n|---|---|---|---|---|---|")
    for number, bug in enumerate(BUGS):
        if options.only and number not in options.only:
            continue
        began = time.monotonic()
        by = found(bug, options.whole)
        if not by:
            missed.append(number)
        where = f"| {number} | {bug.file} | `{bug.old}` | `{bug.new}` "
        print(f"{where}| {by or '-'} | {time.monotonic() - began:.0f} |", flush=True)
    print(f"Not found: {missed}" if missed else "All found.")


def found(bug: Bug, whole: bool) -> str:
    """The first test that fails with a bug in the sources; "" if none does."""
    path = ROOT / bug.file
    before = path.read_text()
    if before.count(bug.old) != 1:
        sys.exit(f"{bug.file} has {before.count(bug.old)} times, not once: {bug.old}")
    try:
        path.write_text(before.replace(bug.old, bug.new))
        _build(bug)
        return _failing(bug.tests.split()) or (_failing(WHOLE) if whole else "")
    finally:
        path.write_text(before)
        _build(bug)


def _build(bug: Bug) -> None:
    if bug.file.startswith("kernels/"):
        subprocess.run(["make", "dev"], cwd=ROOT, check=True, capture_output=True)


def _failing(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    if done.returncode == 0:
        return ""
    if done.returncode in (4, 5):  # wrong usage, and no tests: nothing was tried
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0].split(" ", 1)[1] if lines else f"pytest ends with {done.returncode}"


if __name__ == "__main__":
    main()
