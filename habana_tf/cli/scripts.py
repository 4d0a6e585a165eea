"""What `predict` and `plan` share: a script that is run up to its first `fit`, and the cards that it is for."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from habana_tf.cli.output import CommandError, print_report, write_file


def declare(parser: argparse.ArgumentParser) -> None:
    """The options of both, and the script. Those of one come before."""
    declare_cards(parser)
    declare_script(parser, "a Python script that calls fit")


def declare_cards(parser: argparse.ArgumentParser) -> None:
    """What cards are in, and the form of the answer."""
    parser.add_argument("--box", metavar="NAME", help="HLS-1, HLS-1H, DL1, HLS-Gaudi2 or HLB-325 (default: by chip)")
    parser.add_argument("--release", default="1.14", metavar="X.Y", help="of Habana's software (default: 1.14)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def declare_script(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("script", metavar="SCRIPT", help=what)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")


def check(arguments: argparse.Namespace, chips: Sequence[str | None]) -> None:
    """Refuses, before a script has run, one that is not there, a box that is none of these chips', and no release."""
    from habana_tf.card.model.parameters import check_release
    from habana_tf.hardware.boxes import box
    from habana_tf.hardware.chips import chip

    if not os.path.isfile(arguments.script):
        raise CommandError(f"there is no file {arguments.script}", 2)
    try:
        check_release(arguments.release)
        for name in chips:
            box(chip(name), arguments.box)
    except ValueError as error:
        raise CommandError(str(error), 2) from error


def run_whole(arguments: argparse.Namespace) -> None:
    """Runs the script to its end; what it writes goes to standard error. Raises CommandError where it ends otherwise
    than with 0."""
    import runpy

    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.script)))
    sys.argv = [arguments.script, *arguments.arguments]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(arguments.script, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise CommandError(f"{arguments.script} ended with {ended.code!r}", 1) from ended


def as_ranks(arguments: argparse.Namespace) -> int:
    """Runs the script as ranks of a job of `--world` cards, and prints what a step of it would take."""
    from habana_tf.card.prediction.ranks import Disagreement
    from habana_tf.dry_run.ranks import NothingLaunched, predict_ranks

    ranks = arguments.ranks.split(",")
    if not all(rank.isdecimal() and int(rank) < arguments.world for rank in ranks):
        raise CommandError(f"--ranks {arguments.ranks}: name ranks from 0 to {arguments.world - 1}, as in 0,8", 2)
    numbers = [int(rank) for rank in ranks]
    try:
        found = predict_ranks(
            lambda: run_whole(arguments), arguments.world, numbers, arguments.chip, arguments.box, arguments.release
        )
    except (NothingLaunched, Disagreement) as error:
        raise CommandError(str(error), 1) from error
    if arguments.html:
        write_file(arguments.html, found.html().encode(errors="replace"))
    return print_report(arguments, found)


def answered(arguments: argparse.Namespace, answer: Callable[..., Any]) -> int:
    """Runs the script, whose output goes to standard error, and prints the report that `answer` makes of the model and
    the parts of a batch of its first `fit`."""
    from habana_tf.card.prediction.foreseen import PredictionError
    from habana_tf.dry_run.script import model_and_batch

    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.script)))  # while it is traced, too
    try:
        with contextlib.redirect_stdout(sys.stderr):
            model, data = model_and_batch(arguments.script, arguments.arguments)
            found = answer(model, *data)
    except PredictionError as error:
        raise CommandError(str(error), 1) from error
    return print_report(arguments, found)
