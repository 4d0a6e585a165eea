"""`habana-tf predict`: how fast a script would train on real cards, without training."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from habana_tf.cli import box_options
from habana_tf.cli.numbers import whole
from habana_tf.cli.output import CommandError, print_json

_EPILOG = """\
examples:
  habana-tf predict train.py                              on one card of the chip HABANA_SIM_CHIP names
  habana-tf predict --chip gaudi3 --cards 8 train.py --epochs 3
  habana-tf predict --input-rate 930 --loaders 2 train.py   two loader processes a card, each 930 examples/s
  habana-tf predict --json train.py > prediction.json     what the script prints goes to standard error

The script runs up to its first call of Keras' fit, and ends there: data are read and the model is built, nothing is
trained. The batch is the one fit would take, on each of the cards.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "habana-tf predict [options] SCRIPT [arguments ...]"
    parser.epilog = _EPILOG
    parser.add_argument("--chip", choices=["gaudi", "gaudi2", "gaudi3"], help="default: what HABANA_SIM_CHIP says")
    parser.add_argument("--cards", type=whole(1), default=1, help="cards that train together (default: 1)")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16", help="of products (default: bf16)")
    parser.add_argument(
        "--input-rate", type=whole(1), metavar="N", help="examples/s that a host's input pipeline gives"
    )
    parser.add_argument("--loaders", type=whole(1), metavar="N", help="loader processes a card, --input-rate of each")
    box_options.declare(parser)
    parser.add_argument(
        "--accumulate", type=whole(1), default=1, metavar="N", help="micro-batches of a step (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("script", metavar="SCRIPT", help="a Python script that calls fit")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if not os.path.isfile(arguments.script):
        raise CommandError(f"there is no file {arguments.script}", 2)
    if arguments.loaders and not arguments.input_rate:
        raise CommandError("--loaders needs --input-rate, the examples per second of one of them", 2)
    box_options.check(arguments, [arguments.chip])
    from habana_tf.card.model.host import Host
    from habana_tf.card.prediction.foreseen import PredictionError
    from habana_tf.dry_run.script import predict_script

    host = Host(arguments.input_rate, arguments.loaders) if arguments.input_rate else None
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.script)))  # as `python SCRIPT` has it
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = predict_script(
                arguments.script, arguments.arguments, arguments.chip, arguments.cards, arguments.precision,
                host, arguments.box, arguments.release, arguments.accumulate,
            )  # fmt: skip
    except PredictionError as error:
        raise CommandError(str(error), 1) from error
    if arguments.json:
        print_json(found.to_dict())
    else:
        print(found)
    return 0
