"""`habana-tf fp8-report`: what 8 bits do to the numbers of a script of PyTorch, layer by layer."""

from __future__ import annotations

import argparse
import os

from habana_tf.cli import scripts
from habana_tf.cli.output import CommandError, print_report

_EPILOG = """\
examples:
  habana-tf fp8-report generate.py
  HABANA_SIM_CHIP=gaudi3 habana-tf fp8-report --json generate.py --model my_model

The script runs to its end, more slowly than by itself: op by op, graphs of torch.compile and modules that replay HPU
graphs, too. What it writes goes to standard error. habana_tf.fp8_report(model, *inputs, against=..., measurements=...)
compares with a model in bfloat16 and reads the files of a calibration.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "habana-tf fp8-report [--json] SCRIPT [arguments ...]"
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="print JSON")
    scripts.declare_script(parser, "a Python script that uses PyTorch")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if not os.path.isfile(arguments.script):
        raise CommandError(f"there is no file {arguments.script}", 2)
    from habana_tf.torch.float8_report.observer import Observer
    from habana_tf.torch.float8_report.report import made
    from habana_tf.torch.loader import load

    load()
    with Observer() as observer:
        scripts.run_whole(arguments)
    return print_report(arguments, made(observer))
