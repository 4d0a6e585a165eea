"""`habana-tf check`: whether everything that habana_tf needs is there and fits, and what to do where it does not.

What: small checks of versions (`versions`), machine and settings (`host`) and the recipe cache (`recipe_cache`), while
a process for each framework that is installed (`device`, which runs `trial`) loads HPU, compiles a training step and
compares it with the CPU. So a crash is a finding like others.

Exit code: 1 where there is a problem, else 0. A note fails nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from habana_tf.cli.check.device import Trial
    from habana_tf.cli.check.finding import Finding

_EPILOG = """\
examples:
  habana-tf check
  habana-tf check --json
  habana-tf check --recipes                 the recipe cache alone, at once
  habana-tf check --recipes /srv/recipes

It takes the start of TensorFlow and PyTorch, where they are installed, and a few
seconds. No card is taken. The lines
at the end are for a bug report: they have versions, this machine's CPU, and
which of Habana's variables are set, but no other variable, no command line and
no value that names a place.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--recipes", metavar="DIR", nargs="?", const="", help="only the recipe cache, in DIR or "
                        "TF_RECIPE_CACHE_PATH")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_check, in_any_environment=True)  # it says what is wrong with a variable


def _check(arguments: argparse.Namespace) -> int:
    if arguments.recipes is not None:
        return _check_recipes(arguments.recipes or None, arguments.json)
    from habana_tf.cli.check import report, versions
    from habana_tf.cli.check.device import Trial
    from habana_tf.cli.output import painted, print_json
    from habana_tf.hardware.device_state import PYTORCH, TENSORFLOW

    start = time.monotonic()
    findings: list[Finding] = []
    installed = {TENSORFLOW: versions.tensorflow_version(), PYTORCH: versions.torch_version()}
    with ExitStack() as started:
        trials = [started.enter_context(closing(Trial(name))) for name, number in installed.items() if number]
        for finding in _findings(trials):
            findings.append(finding)
            if not arguments.json:
                print(report.line(finding), flush=True)
        seconds = time.monotonic() - start
        lines = report.bug_report(findings, next((trial.cpu for trial in trials if trial.cpu), None))
    problems = sum(finding.status == "problem" for finding in findings)
    starts = {t.framework: t.seconds[t.framework] for t in trials if t.framework in t.seconds}
    if arguments.json:
        print_json({"checks": _as_json(findings), "problems": problems, "seconds": round(seconds, 3),
                    "bug_report": lines,
                    "tensorflow_seconds": starts.get(TENSORFLOW), "pytorch_seconds": starts.get(PYTORCH)})  # fmt: skip
    else:
        own = " and ".join(f"{name}'s own start {took:.1f} s" for name, took in starts.items())
        print(f"\n{problems or 'no'} problem{'s' * (problems != 1)}, in {seconds:.1f} s{own and f', {own}'}")
        print("\n" + painted("For a bug report, copy what is below:", "bold") + "\n")
        print("\n".join(lines))
    return 1 if problems else 0


def _check_recipes(path: str | None, as_json: bool) -> int:
    from habana_tf.cli.check import host, recipe_cache, report
    from habana_tf.cli.check.finding import tried
    from habana_tf.cli.output import print_json

    findings = [each for each in tried("settings", host.variables) if each.status == "problem"]
    findings += tried(recipe_cache.NAME, lambda: recipe_cache.recipes(path))
    problems = sum(finding.status == "problem" for finding in findings)
    if as_json:
        print_json({"checks": _as_json(findings), "problems": problems})
    else:
        print(*map(report.line, findings), sep="\n")
    return 1 if problems else 0


def _as_json(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [{name: value for name, value in asdict(each).items() if name != "public"} for each in findings]


def _findings(trials: Sequence[Trial]) -> Iterator[Finding]:
    """All, in the order in which they are shown; those of processes last, because they take longest."""
    from habana_tf.cli.check import host, recipe_cache, versions
    from habana_tf.cli.check.finding import tried

    for name, check in (
        ("Python", versions.python),
        ("TensorFlow", versions.tensorflow),
        ("Keras", versions.keras),
        ("PyTorch", versions.torch),
        ("Horovod", versions.horovod),
        ("MPI", versions.mpi),
        ("settings", host.variables),
        ("native part", host.native),
        ("cards", host.cards),
        ("memory", host.memory),
        ("shared memory", host.shared_memory),
        (recipe_cache.NAME, recipe_cache.recipes),
    ):
        yield from tried(name, check)
    for trial in trials:
        yield from tried("HPU", trial.findings)
