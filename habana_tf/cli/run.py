"""`habana-tf run`: starts a program on several cards, without MPI."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys

from habana_tf.cli.numbers import seconds, whole
from habana_tf.cli.output import CommandError
from habana_tf.files.escaped import escaped
from habana_tf.launcher.plan import RSH

_EPILOG = """\
examples:
  habana-tf run -n 4 train.py --epochs 3               a program that uses HPUStrategy: TF_CONFIG is set
  habana-tf run -n 2 --strategy horovod train.py       a program that uses Horovod, over Gloo
  habana-tf run -n 2 --strategy torch train.py         a program of PyTorch: RANK, MASTER_ADDR and their like are set
  habana-tf run -n 2 --load --strategy horovod a.py    the same, for one that never calls load_habana_module()
  HABANA_VISIBLE_MODULES=4,5 habana-tf run -n 2 a.py   on these two cards; by default on the first that are free
  habana-tf run -n 8 --nodes host1,host2 train.py      four ranks on each of two hosts, through ssh
  habana-tf run -n 8 --nodes host1,host2 --print a.py  the commands, to be run by other means
  habana-tf run -n 8 --nodes host1,host2 --export WANDB_API_KEY train.py      one more variable goes to the other hosts

Ranks on this host get the first visible cards that are free; where there are too few, the job is refused before a
program starts, also if the program would use none. On other hosts a rank whose card is held is not started, and the
job ends.

Each line of output has its rank in front; progress bars are drawn for rank 0 only. When a rank fails, the others are
stopped and its exit code is returned. Interrupts and other signals go to all ranks; a second interrupt ends them, a
third kills them. Under nohup the job survives its terminal; it continues when the reader of its output ends.
A program may write the path of its last checkpoint into the file HABANA_SIM_CHECKPOINT_NOTE: when the job fails, the
command that continues from there is printed.

Ranks on other hosts get the variables that habana_tf, TensorFlow, PyTorch, Horovod and OpenMP are known to read, the
paths of programs and libraries, and what --export names; all others stay on this host.

Set TF_RECIPE_CACHE_PATH: with it the ranks share recipes, and each is compiled once per host instead of once per rank.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "habana-tf run -n COUNT [options] PROGRAM [arguments ...]"
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("-n", "--count", type=whole(1), required=True, help="ranks in all; each takes one card")
    add("--strategy", choices=["hpu", "horovod", "torch"], default="hpu", help="how it distributes (default: hpu)")
    add("-m", dest="as_module", action="store_true", help="PROGRAM is a module, as for python -m")
    add("--load", action="store_true", help="call load_habana_module() before the program starts")
    add("--nodes", metavar="HOST,...", help="hosts as they know each other, as many ranks on each (default: this one)")
    add("--rsh", default=RSH, help="command that runs a shell line on a host (default: %(default)s)")
    add("--python", default=sys.executable, help="Python of the ranks (default: this one)")
    add("--port", type=whole(1, 65535), default=0, help="first port of HPUStrategy's workers, PyTorch's MASTER_PORT "
        "(default: free; 7850 with --nodes)")  # fmt: skip
    add("--no-bind", action="store_true", help="let every rank use all cores (by default those of a host share them)")
    add("--log-dir", metavar="DIR", help="write each rank's whole output to DIR/rank_N.log too")
    add("--grace", type=seconds(86400), default=10.0, help="from asking a rank to end to killing it (default: 10 s)")
    add("--export", metavar="NAME", action="append", default=[], help="send this variable to other hosts too; may be "
        "repeated (--print hides its value)")  # fmt: skip
    add("--print", action="store_true", help="print the commands and run nothing")
    add("program", metavar="PROGRAM", help="a Python script, a module with -m, or any executable")
    add("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from habana_tf.launcher import carried, plan, rendezvous
    from habana_tf.launcher.console import Console
    from habana_tf.launcher.job import Job

    if not arguments.as_module and arguments.program.endswith(".py") and not os.path.isfile(arguments.program):
        raise CommandError(f"there is no file {escaped(arguments.program)}", 2)
    _check_texts(arguments)
    job = plan.JobOptions(
        count=arguments.count, strategy=arguments.strategy, program=arguments.program,
        arguments=tuple(arguments.arguments), as_module=arguments.as_module, load_first=arguments.load,
        hosts=tuple(filter(None, (arguments.nodes or "").split(","))), port=arguments.port, bind=not arguments.no_bind,
        python=arguments.python, export=tuple(dict.fromkeys(arguments.export)),
    )  # fmt: skip
    here = job.hosts in ((), (plan.LOCAL,))
    cards, passed_over = _free_cards(job.count) if here and not arguments.print else ((), "")
    with contextlib.ExitStack() as held:
        try:
            if arguments.print:
                if job.strategy == "horovod":
                    print(plan.horovodrun(job))
                else:
                    print(*(f"{escaped(rank.describe())}: {rank.shell_line()}" for rank in plan.make(job)), sep="\n")
                return 0
            meeting = held.enter_context(rendezvous.server(job)) if job.strategy == "horovod" else None
            ranks = plan.make(job, meeting, held, cards)
        except plan.PlanError as error:
            raise CommandError(str(error), 2) from error
        try:
            console = Console(job.count, sys.stdout, sys.stderr, arguments.log_dir)
        except OSError as error:
            where = escaped(error.filename or arguments.log_dir)
            raise CommandError(f"--log-dir: {where} cannot be written to: {error.strerror}", 1) from error
        held.callback(console.close)
        if cards:
            console.say(f"cards {','.join(map(str, cards[: job.count]))} ({passed_over})")
        stay = carried.left_here(job.export) if job.hosts else []
        if stay:
            console.say(f"not sent to other hosts: {', '.join(stay)} (--export NAME sends a variable)")
        address = meeting[0] if meeting else None
        try:
            line = shlex.join(["habana-tf", *sys.argv[1:]])
            return Job(ranks, console, shlex.split(arguments.rsh), address, arguments.grace, line).run()
        except plan.PlanError as error:
            raise CommandError(str(error), 2) from error


def _free_cards(count: int) -> tuple[tuple[int, ...], str]:
    """See `free_cards.choose`. Ranks that are more than the visible cards are left to `plan.make`."""
    from habana_tf.hardware.cards import CardError, visible_cards
    from habana_tf.hardware.machine import MachineError
    from habana_tf.launcher import free_cards

    visible = len(visible_cards())
    try:
        return free_cards.choose(count) if count <= visible else ((), "")
    except (CardError, MachineError) as error:
        first, *more = str(error).splitlines()
        raise CommandError(first, 1, more) from error


def _check_texts(arguments: argparse.Namespace) -> None:
    """Raises CommandError for options of nothing, which would mean something else, and for what names no variable."""
    from habana_tf.launcher.carried import NAME

    for option in ("log_dir", "nodes", "rsh", "python"):
        given = getattr(arguments, option)
        if given is not None and not given.replace(",", " ").strip():
            raise CommandError(
                f"--{option.replace('_', '-')} is given without a value: leave it out, or give it one", 2
            )
    try:
        shlex.split(arguments.rsh)
    except ValueError as error:
        raise CommandError(f"--rsh {escaped(arguments.rsh)} is no command line: {error}", 2) from error
    for name in arguments.export:
        if not NAME.fullmatch(name):
            raise CommandError(f"--export {escaped(name[:40])}: not a variable's name; give the name alone", 2)
