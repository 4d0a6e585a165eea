"""First calls, copies, launches and updates of variables from four threads, watched by ThreadSanitizer.

    cmake -S . -B build/thread -G Ninja -DHABANA_SANITIZE=thread && cmake --build build/thread
    python tests/device/thread_sanitizer.py build/thread

The binaries of kernels/ are compiled for the sanitizer; TensorFlow, Python and generated code are not: what they
do is not watched, nor are the locks that TensorFlow makes of futexes. Python's lock is not shown to the sanitizer
either: it would order nearly all that threads of Python do. What only such a lock orders looks like a race; ALLOWED
names these kinds. Ends with 1 if there is a report of another kind, a wrong answer, or no report of a planted race.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
THREADS = 4
FAILED = 66
"""What the sanitizer makes a process end with that it has reported something of."""

PLANTED = """
extern "C" int planted_race(int times) {
  static int count = 0;
  for (int i = 0; i < times; ++i) ++count;
  return count;
}
"""
"""What two threads call, so that a run in which the sanitizer sees nothing is no success."""

MADE = "TensorFlow makes a kernel before any thread calls it, and destroys it behind the last call"
ALLOWED = {
    r"KernelBuilderFactory::Create|CreateLaunch|CreateFromNode": MADE,
    r"#\d+ (habana::)?Destroy<|CKernel::~|COpKernel::~": MADE,
    r"#0 .*_bridge\.[^\n]*\n(.*\n)*\s*#0 .*_bridge\.": "both under Python's lock, which the sanitizer is not shown",
}
"""What the stacks of the two accesses of a report have in them that is no race, as a pattern, and why."""


def load_sanitized(build: Path) -> None:
    """Has the package take its native part from a build for the sanitizer."""
    native: Any = importlib.import_module("habana_tf._native")

    (file,) = (build / "native").glob("_bridge*.so")
    spec = importlib.util.spec_from_file_location("habana_tf._native._bridge", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    native._bridge = module


def race(library: Path) -> None:
    """Two threads call a function of a library that is not safe for two."""
    work = ctypes.CDLL(str(library)).planted_race
    threads = [threading.Thread(target=work, args=(30_000_000,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def exercise(rounds: int) -> int:
    """Does everything from several threads; how many answers were wrong."""
    import tensorflow as tf

    from habana_tf import load_habana_module

    load_habana_module()
    from tests.device import test_updates_from_threads as updating
    from tests.device.threads_soak import CASES, DATASET, serving, soak

    others = first_calls(tf, rounds)
    cases = {**CASES, **serving(), "dataset": DATASET}
    done, wrong = soak(cases, THREADS, lambda count: count < rounds)
    lost = 0
    for dtype in ("float32", "float64"):  # one that HPU computes, and one that the CPU computes on copies
        with tf.device("/HPU:0"):
            v, moment = tf.Variable(tf.zeros([4], dtype)), tf.Variable(tf.zeros([4], dtype))
            eager = updating.updates(v, moment, tf.ones([4], dtype))
            forms = {**eager, **{f"{name} in a function": updating.traced(f) for name, f in eager.items()}}
            first = forms["assign_add"]
            lost += len(updating.lost(v, [(first, form) for form in forms.values()] * rounds))
            others += copies(tf, v, rounds)
    bad = sum(wrong.values()) + lost + others
    print(f"{sum(done.values()):,} answers; {bad} of them, of updates or of copies wrong", flush=True)
    return bad


def _at_once(work: Callable[[int], int]) -> int:
    """Calls a function on all threads at the same time; the sum of what it gives."""
    start, given = threading.Barrier(THREADS), [1] * THREADS

    def call(k: int) -> None:
        start.wait()
        given[k] = work(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(given)


def first_calls(tf: Any, rounds: int) -> int:
    """Ops, a function and updates that all threads call with sizes that nothing was called with before."""
    signature = [tf.TensorSpec([None], tf.float32)]
    function = tf.function(lambda x: tf.reduce_sum(tf.concat([x, x * 2.0], 0)), input_signature=signature)
    v = {n: tf.Variable(tf.zeros([n])) for n in range(2, 2 + 6 * rounds)}

    def work(k: int) -> int:
        wrong, sizes = 0, list(v)
        for n in [*sizes[k:], *sizes[:k]]:  # each thread another one
            variable = v[n]
            x = tf.ones([n])
            wrong += float(function(x)) != 3 * n
            wrong += tf.concat([x, x], 0).shape != [2 * n] or float(tf.reduce_sum(tf.cumsum(x))) != n * (n + 1) / 2
            variable.scatter_add(tf.IndexedSlices(tf.ones([1]), [n - 1]))
            variable.assign_add(x)
        return wrong

    wrong = _at_once(work)
    return wrong + sum(variable.numpy().tolist()[-1] != 2 * THREADS for variable in v.values())


def copies(tf: Any, v: Any, rounds: int) -> int:
    """Copies from and to the card and on it, of tensors that all threads share."""
    shared = tf.constant(np.arange(4096, dtype="f4"))

    def work(k: int) -> int:
        wrong = 0
        for i in range(50 * rounds):
            there = tf.constant(np.full(1024, k * 100 + i, "f4"))
            with tf.device("/CPU:0"):
                back = tf.identity(there)
            again = tf.identity(shared)
            v.assign(tf.cast(tf.fill([4], k), v.dtype))
            wrong += float(back[-1]) != k * 100 + i or again.numpy()[-1] != 4095 or len(set(v.numpy().tolist())) != 1
        return wrong

    return _at_once(work)


def reports(text: str) -> list[str]:
    """The sanitizer's reports, each as it stands in its log."""
    return re.findall(r"^WARNING: ThreadSanitizer.*?(?=^==================)", text, re.M | re.S)


def accesses(report: str) -> list[str]:
    """The stacks of the two accesses of a report; others say where memory and threads come from."""
    return re.split(r"\n\s*\n", report)[:2]


def place(report: str) -> str:
    """The innermost function of ours on the stack of each access."""
    inner = (re.search(r"#\d+ (?:habana::)?(.*?)(?:\(.*)? \S*/kernels/(\S*?):\d+", stack) for stack in accesses(report))
    return " and ".join(dict.fromkeys(f"{m.group(1)} ({m.group(2)})" for m in inner if m)) or "nothing of ours"


def reason(report: str) -> str:
    """Why a report is of no race, or nothing."""
    both = "\n".join(accesses(report))
    return next((why for pattern, why in ALLOWED.items() if re.search(pattern, both)), "")


def watch(build: Path, rounds: int) -> int:
    """Runs `exercise` in a process under the sanitizer, and prints what it reported by place."""
    library = subprocess.run(
        ["g++", "-print-file-name=libtsan.so"], check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, object] = {
            "log_path": f"{folder}/log", "exitcode": FAILED, "ignore_noninstrumented_modules": 1, "history_size": 4,
            "handle_segv": 0, "report_signal_unsafe": 0,
        }  # fmt: skip
        ignored = Path(folder, "suppressions")
        ignored.write_text("called_from_lib:libpython3\n")  # its lock would order all that threads of Python do
        options["suppressions"] = str(ignored)
        env = {
            **os.environ,
            "LD_PRELOAD": os.path.realpath(library),
            "TSAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "HABANA_SIM_STATE_DIR": folder,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        }
        planted = Path(folder, "planted.so")
        compiler = ["g++", "-x", "c++", "-", "-g", "-fsanitize=thread", "-shared", "-fPIC", "-o", str(planted)]
        subprocess.run(compiler, input=PLANTED, text=True, check=True)
        # Addresses as without randomization: the sanitizer's shadow memory has fixed places.
        command = ["setarch", "-R", sys.executable, __file__, str(build), "--rounds", str(rounds)]
        done = subprocess.run([*command, "--inside", str(planted)], env=env, cwd=ROOT)
        found = [r for log in sorted(Path(folder).glob("log*")) for r in reports(log.read_text() + "\n" + "=" * 18)]
    if done.returncode not in (0, FAILED):
        print(f"the process ended with {done.returncode}")
        return 1
    if not any("planted.so" in report for report in found):
        print("the sanitizer did not see the race that was planted for it")
        return 1
    found = [report for report in found if "planted.so" not in report]
    counts = Counter((place(report), reason(report)) for report in found)
    for (where, why), count in counts.most_common():
        print(f"{count:5} {where}: {why or 'a race'}")
    races = [report for report in found if not reason(report)]
    for where in dict.fromkeys(map(place, races)):
        print("\n" + next(report for report in races if place(report) == where))
    print(f"{len(found)} reports, {len(races)} of them races")
    return 1 if races else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the folder of a build with -DHABANA_SANITIZE=thread")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside is None:
        return watch(arguments.build.resolve(), arguments.rounds)
    load_sanitized(arguments.build)
    wrong = exercise(arguments.rounds)
    race(arguments.inside)  # last: the sanitizer reads the names of functions at its first report
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
