"""The command line of benchmarks that make calls of PyTorch in this process, and the device as it asks for it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def command_line(description: str, kind: str) -> argparse.ArgumentParser:
    """kind: what is measured, `op` or `case`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(f"--{kind}s", nargs="+", default=[""], metavar="PART", help="parts of names; default: all",
                        dest="names")  # fmt: skip
    parser.add_argument("--lazy", action="store_true", help="in lazy mode")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for HPU and CPU alike")
    parser.add_argument("--json", metavar="FILE", help="write the lines there too")
    parser.set_defaults(kind=kind)
    return parser


def loaded(options: argparse.Namespace) -> Callable[[], None]:
    """Loads PyTorch and HPU in the mode that is asked for. Gives what ends a call."""
    os.environ["PT_HPU_LAZY_MODE"] = "1" if options.lazy else "0"
    os.environ["HABANA_SIM_THREADS"] = str(options.threads)
    os.environ.setdefault("HABANA_SIM_LOG", "error")
    import torch

    import habana_frameworks.torch.core as htcore

    torch.set_num_threads(options.threads)
    return htcore.mark_step if options.lazy else lambda: None


def chosen(parser: argparse.ArgumentParser, options: argparse.Namespace, cases: Sequence[Any]) -> list[Any]:
    """The cases, named by their first element, of which a part of the name is asked for. Ends where none is."""
    found = [case for case in cases if any(part in case[0] for part in options.names)]
    if not found:
        parser.error(f"no {options.kind} has {' or '.join(options.names)} in its name")
    return found


def write(options: argparse.Namespace, lines: Sequence[dict[str, Any]]) -> None:
    """Writes the lines where that is asked for."""
    if options.json:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in lines))
