"""`habana-tf plan`: which cards a script needs to train as fast as is asked for, before any are rented."""

from __future__ import annotations

import argparse

from habana_tf.cli import scripts
from habana_tf.cli.numbers import whole
from habana_tf.cli.output import CommandError

_EPILOG = """\
examples:
  habana-tf plan --target "10000 examples/s" train.py
  habana-tf plan --target "8 hours" --dataset-size 1281167 --epochs 90 train.py --fast
  habana-tf plan --target "8 hours" --dataset-size 1281167 --global-batch 2048 --batch 64 --batch 256 train.py

The script runs up to its first call of Keras' fit, and ends there. Its batch is that of one card; --batch asks for
others. --chip, --batch and --precision may be given several times.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "habana-tf plan [options] --target TARGET SCRIPT [arguments ...]"
    parser.epilog = _EPILOG
    parser.add_argument("--target", required=True, help='"10000 examples/s", or "8 hours" (min, days) for all epochs')
    parser.add_argument("--dataset-size", type=whole(1), metavar="N", help="examples of one epoch")
    parser.add_argument("--epochs", type=whole(1), default=1, metavar="N", help="(default: 1)")
    parser.add_argument("--chip", action="append", choices=["gaudi", "gaudi2", "gaudi3"], help="(default: all)")
    parser.add_argument("--batch", action="append", type=whole(1), metavar="N", help="examples per card")
    parser.add_argument("--global-batch", type=whole(1), metavar="N", help="examples between two updates")
    parser.add_argument("--precision", action="append", choices=["bf16", "fp32"], help="(default: both)")
    parser.add_argument("--input-rate", type=whole(1), metavar="N", help="examples/s that a host's input gives")
    parser.add_argument("--most-cards", type=whole(1, 4096), default=4096, metavar="N", help="(default: 4096)")
    parser.add_argument("--host-watts", type=whole(0), default=0, metavar="W", help="of a host (default: not counted)")
    scripts.declare(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from habana_tf.card.model.host import Host
    from habana_tf.card.prediction.target import target

    try:
        target(arguments.target, arguments.dataset_size, arguments.epochs)  # before the script reads its data
    except ValueError as error:
        raise CommandError(str(error), 2) from error
    scripts.check(arguments, arguments.chip or ("gaudi", "gaudi2", "gaudi3"))
    from habana_tf.dry_run.plan import plan

    return scripts.answered(arguments, lambda model, *data: plan(
        model, *data, target=arguments.target, dataset_size=arguments.dataset_size, epochs=arguments.epochs,
        chips=arguments.chip, batches=arguments.batch or (), global_batch=arguments.global_batch,
        precisions=arguments.precision or ("bf16", "fp32"),
        host=Host(arguments.input_rate) if arguments.input_rate else None, most_cards=arguments.most_cards,
        host_watts=arguments.host_watts, box=arguments.box, release=arguments.release,
    ))  # fmt: skip
