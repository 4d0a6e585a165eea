"""`habana-tf predict`: how fast a script would train on real cards, without training."""

from __future__ import annotations

import argparse

from habana_tf.cli import scripts
from habana_tf.cli.numbers import whole
from habana_tf.cli.output import CommandError

_EPILOG = """\
examples:
  habana-tf predict train.py                              on one card of the chip HABANA_SIM_CHIP names
  habana-tf predict --chip gaudi3 --cards 8 train.py --epochs 3
  habana-tf predict --input-rate 930 --loaders 2 train.py   two loader processes a card, each 930 examples/s
  habana-tf predict --json train.py > prediction.json     what the script prints goes to standard error
  habana-tf predict --world 64 --ranks 0,8 train_ddp.py   a script of PyTorch, as two ranks of a job of 64 cards
  habana-tf predict --world 8 --ranks 0,4 --html waits.html train_pipeline.py       and who waits for whom, as a page

The script runs up to its first call of Keras' fit, and ends there: data are read and the model is built, nothing is
trained. The batch is the one fit would take, on each of the cards.

With --world a script of PyTorch runs as rank after rank of a job that does not exist, up to the third step of its
optimizer, and nothing is computed: what it launches and which collectives it calls say how long a step takes, who waits
for whom, and whether the ranks' collectives go together.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "habana-tf predict [options] SCRIPT [arguments ...]"
    parser.epilog = _EPILOG
    parser.add_argument("--chip", choices=["gaudi", "gaudi2", "gaudi3"], help="default: what HABANA_SIM_CHIP says")
    parser.add_argument("--cards", type=whole(1), default=1, help="cards that train together (default: 1)")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16", help="of products (default: bf16)")
    parser.add_argument("--input-rate", type=whole(1), metavar="N", help="examples/s that a host's input gives")
    parser.add_argument("--loaders", type=whole(1), metavar="N", help="loader processes a card, --input-rate of each")
    parser.add_argument("--accumulate", type=whole(1), default=1, metavar="N", help="micro-batches of a step")
    parser.add_argument("--world", type=whole(1), metavar="N", help="cards of a job of PyTorch that does not exist")
    parser.add_argument("--ranks", default="0", metavar="N,..", help="ranks of it to run (default: 0)")
    parser.add_argument("--html", metavar="FILE", help="with --world: a page with who waits for whom")
    scripts.declare(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.loaders and not arguments.input_rate:
        raise CommandError("--loaders needs --input-rate, the examples per second of one of them", 2)
    if arguments.html and not arguments.world:
        raise CommandError("--html needs --world, the cards of a job of PyTorch", 2)
    scripts.check(arguments, [arguments.chip])
    if arguments.world:
        return scripts.as_ranks(arguments)
    from habana_tf.card.model.host import Host
    from habana_tf.dry_run.predict import predict

    return scripts.answered(arguments, lambda model, *data: predict(
        model, *data, chip=arguments.chip, cards=arguments.cards, precision=arguments.precision,
        host=Host(arguments.input_rate, arguments.loaders) if arguments.input_rate else None, box=arguments.box,
        release=arguments.release, accumulate=arguments.accumulate,
    ))  # fmt: skip
