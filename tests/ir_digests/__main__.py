"""Records what the compiler makes of every program of its tests and of the networks, and compares two records.

    python -m tests.ir_digests record build/ir/before
    python -m tests.ir_digests compare build/ir/before build/ir/after

A commit that only moves or renames leaves the LLVM IR and the plan (buffers, calls, loops, constants) of every program
as they were. A record is a directory: `programs.jsonl` with one line per program (where it was compiled, its name, the
SHA-256 of its IR and of its plan), and the texts behind the digests, so that `compare` can show the first difference.
Hypothesis draws the same examples in every run, so two runs of the same sources give equal records. Records of two
machines differ: the IR depends on the CPU and on what was calibrated.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.ir_digests.recorder import LABEL, RECORD, text_path
from tests.networks import zoo

HOOK = Path(__file__).with_name("hook")
ROOT = Path(__file__).resolve().parents[2]
SHOWN_LINES = 40
SHOWN_PROGRAMS = 10


class Row(NamedTuple):
    """A compiled program. label: the test or the network; ir, plan: SHA-256 of the texts."""

    label: str
    name: str
    ir: str
    plan: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ir_digests", description="Whether a change of the sources changes any generated code."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    record_ = actions.add_parser("record", help="compile all programs and write their digests")
    record_.add_argument("record", type=Path, metavar="DIRECTORY", help="is emptied first")
    record_.add_argument("--networks", nargs="*", choices=zoo.NETWORKS, default=list(zoo.NETWORKS), metavar="NAME",
                         help="default: all; none with nothing behind it")  # fmt: skip
    record_.add_argument("--no-tests", action="store_true", help="leave out the compiler's tests")
    record_.set_defaults(action=_record)
    compare_ = actions.add_parser("compare", help="exit code 1, and what differs, where two records differ")
    compare_.add_argument("before", type=Path)
    compare_.add_argument("after", type=Path)
    compare_.set_defaults(action=_compare)
    options = parser.parse_args(arguments)
    done: int = options.action(options)
    return done


def _record(options: argparse.Namespace) -> int:
    record: Path = options.record.resolve()
    shutil.rmtree(record, ignore_errors=True)
    record.mkdir(parents=True)
    env = {**os.environ, RECORD: str(record), "PYTHONPATH": os.pathsep.join([str(HOOK), str(ROOT)]),
           "TF_CPP_MIN_LOG_LEVEL": "3", "HABANA_SIM_LOG": "warning"}  # fmt: skip
    env.pop("TF_RECIPE_CACHE_PATH", None)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for what, command, label in _runs(options):
            print(f"{time.monotonic() - start:5.0f} s  {what}", flush=True)
            done = subprocess.run(command, env={**env, LABEL: label}, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                print(f"{what} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
                return 1
    print(f"{len(rows(record))} programs in {time.monotonic() - start:.0f} s: {record}")
    return 0


def _runs(options: argparse.Namespace) -> Iterator[tuple[str, list[str], str]]:
    """(what is run, its command, its label)"""
    python = [sys.executable, "-m"]
    if not options.no_tests:
        tests = ["pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        yield "the compiler's tests", [*python, *tests, str(ROOT / "tests" / "compiler")], ""
    for name in options.networks:
        for precision in ("fp32", "bf16") if name in zoo.BF16 else ("fp32",):
            run = ["tests.networks.train", name, "hpu", "result.npz", "--steps", "1", "--precision", precision]
            yield f"{name} in {precision}", [*python, *run], f"{name} in {precision}"


def rows(record: Path) -> list[Row]:
    """The programs of a record, each once. Raises SystemExit where there is none."""
    files = sorted(record.glob("programs-*.jsonl"))
    if not files:
        raise SystemExit(f"{record} holds no record: `make ir-record` makes one of the sources as they stand")
    found = {Row(*json.loads(line)) for file in files for line in file.read_text().splitlines()}
    return sorted(found)


def _compare(options: argparse.Namespace) -> int:
    before, after = rows(options.before), rows(options.after)
    lost = list((Counter(before) - Counter(after)).elements())
    new = list((Counter(after) - Counter(before)).elements())
    if not lost and not new:
        print(f"{len(before)} programs: IR and plans are equal")
        return 0
    labels = sorted({row.label for row in (*lost, *new)})
    print(f"{len(lost)} of {len(before)} programs differ or are gone, {len(new)} of {len(after)} differ or are new:")
    for label in labels[:SHOWN_PROGRAMS]:
        print(f"  {label}")
    if len(labels) > SHOWN_PROGRAMS:
        print(f"  and {len(labels) - SHOWN_PROGRAMS} more")
    for old in lost:
        other = next((row for row in new if (row.label, row.name) == (old.label, old.name)), None)
        if other is not None:
            print(f"\n{old.label}: {old.name}")
            print("\n".join(islice(_difference(options, old, other), SHOWN_LINES)))
            break
    return 1


def _difference(options: argparse.Namespace, old: Row, new: Row) -> Iterator[str]:
    for a, b in ((old.ir, new.ir), (old.plan, new.plan)):
        if a != b:
            texts = [
                gzip.decompress(text_path(record, digest).read_bytes()).decode().splitlines()
                for record, digest in ((options.before, a), (options.after, b))
            ]
            yield from difflib.unified_diff(*texts, "before", "after", lineterm="", n=2)


if __name__ == "__main__":
    sys.exit(main())
