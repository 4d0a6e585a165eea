"""`habana-tf trace`: runs a program and writes the timeline of all its ranks into one file."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from habana_tf.cli.output import CommandError
from habana_tf.files.escaped import escaped
from habana_tf.reports.units import duration, size

_EPILOG = """\
examples:
  habana-tf trace train.py --epochs 1                         into trace.json, for ui.perfetto.dev
  habana-tf trace -o step.json --html step.html train.py      and as a page that needs nothing else
  habana-tf trace habana-tf run -n 2 train.py                 both ranks in one file, by one clock
  habana-tf trace mpirun -n 2 python train.py                 the same with another launcher

Rows of the host are real: launches and their kernel calls, compilations, copies, waits for other ranks. Rows of the
card are predicted, and have a clock of their own. Recording begins when the program loads HPU, and ends with it; of a
long program the first million events are kept. A program that is killed leaves nothing.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "habana-tf trace [options] PROGRAM [arguments ...]"
    parser.epilog = _EPILOG
    parser.add_argument("-o", "--output", metavar="FILE", help="Chrome trace events (default: trace.json)")
    parser.add_argument("--html", metavar="FILE", help="a page with timeline, roofline, memory and layers")
    parser.add_argument("--cpu-ops", action="store_true",
                        help="also what TensorFlow runs on the CPU, by its own profiler, which the program then cannot "
                        "use itself; costs more")  # fmt: skip
    parser.add_argument("program", metavar="PROGRAM", help="a Python script (.py), or any command that starts some")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.program.endswith(".py"):
        if not os.path.isfile(arguments.program):
            raise CommandError(f"there is no file {arguments.program}", 2)
        command = [sys.executable, arguments.program, *arguments.arguments]
    else:
        command = [arguments.program, *arguments.arguments]
    outputs = {"json": arguments.output or (None if arguments.html else "trace.json"), "html": arguments.html}
    for path in filter(None, outputs.values()):
        folder = os.path.dirname(os.path.abspath(path))
        if not os.access(folder, os.W_OK):
            raise CommandError(f"{path}: {folder} is no folder that can be written to", 2)
    from habana_tf.card.timeline import folder

    with tempfile.TemporaryDirectory(prefix="habana-tf-trace-") as where:
        code = _ran(command, where, arguments.cpu_ops)
        parts = folder.read(where)
    if not parts:
        raise CommandError(
            f"{arguments.program} ended with {code} and left no timeline: it never loaded HPU (load_habana_module()), "
            "or was killed before it could write",
            code or 1,
        )
    _write(parts, outputs)
    return code


def _ran(command: Sequence[str], folder: str, cpu_ops: bool) -> int:
    """Runs it to its end and returns its exit code. Interrupts are the program's: it gets them from the terminal."""
    from habana_tf import settings

    env = {**os.environ, settings.HABANA_SIM_TRACE_PARTS.name: folder}
    env[settings.HABANA_SIM_TRACE_CPU.name] = "on" if cpu_ops else "off"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.Popen(command, env=env, preexec_fn=_interruptible).wait()
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be started: {error.strerror}", 2) from error
    finally:
        signal.signal(signal.SIGINT, before)


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _write(parts: list[dict[str, Any]], outputs: dict[str, str | None]) -> None:
    from habana_tf.card.timeline import chrome
    from habana_tf.card.timeline.record import EventKind

    launches = sum(e[3] == EventKind.LAUNCH for p in parts for t in p["threads"] for e in t["events"])
    seconds = max((p["end"] - p["begin"]) / 1e9 for p in parts)
    ranks = f"{len(parts)} rank{'s' if len(parts) > 1 else ''}"
    for form, path in outputs.items():
        if path is None:
            continue
        if form == "json":
            written, hint = chrome.write(parts, path), "open it in ui.perfetto.dev"
        else:
            from habana_tf.cli.trace.page import page

            written, hint = Path(path).write_text(page.page(parts), "utf-8"), "open it in a browser"
        said = f"{path}: {launches} launches of {ranks} in {duration(seconds)}, {size(written)}; {hint}"
        print(f"habana-tf: {escaped(said)}", file=sys.stderr)
    for part in parts:
        if part["dropped"]:
            lost = f"rank {part['rank']}: {part['dropped']} later events were not kept, there is room for a million"
            print(f"habana-tf: {lost}", file=sys.stderr)
