"""Options of the commands that predict: the machine and the software that cards are in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from habana_tf.cli.output import CommandError


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--box", metavar="NAME", help="HLS-1, HLS-1H, DL1, HLS-Gaudi2 or HLB-325 (default: by chip)")
    parser.add_argument("--release", default="1.14", metavar="X.Y", help="of Habana's software (default: 1.14)")


def check(arguments: argparse.Namespace, chips: Sequence[str | None]) -> None:
    """Refuses a box that is none of these chips', and what is no release, before a script has run."""
    from habana_tf.card.model.parameters import check_release
    from habana_tf.hardware.boxes import box
    from habana_tf.hardware.chips import chip

    try:
        check_release(arguments.release)
        for name in chips:
            box(chip(name), arguments.box)
    except ValueError as error:
        raise CommandError(str(error), 2) from error
