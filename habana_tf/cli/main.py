"""`habana-tf`: start programs on several cards; look at recipes, the machine, the ops it runs and the settings.

One module per command; each has `add_parser`, which declares it, and a function that runs it and returns the exit
code. Commands import what they need when they run, so that `--help` is immediate.

Exit codes: 0 done; 1 what was asked for is not there, damaged or refused; 2 wrong usage or a wrong setting. `run`
returns what the first rank that failed returned.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from habana_tf import __version__
from habana_tf.cli import completion, machine, ops, recipes, run, variables
from habana_tf.cli.output import CommandError

_EPILOG = """\
examples:
  TF_RECIPE_CACHE_PATH=/tmp/recipes habana-tf recipes list
  habana-tf recipes list --path /tmp/recipes --sort compile --json
  habana-tf recipes show 3fa9 --path /tmp/recipes
  habana-tf recipes explain
  habana-tf run -n 4 train.py
  habana-tf info
  habana-tf ops conv2d pool
  habana-tf settings
  eval "$(habana-tf completion bash)"

exit codes: 0 done; 1 not there, damaged or refused; 2 wrong usage or setting
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; `arguments` are those of the process by default. Returns the exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        code: int = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except CommandError as error:
        print(f"habana-tf: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        # The reader has seen enough (`| head`); nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="habana-tf",
        description="Start programs on the simulated Gaudi; look at its recipes, machine, ops and settings.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    run.add_parser(commands)
    recipes.add_parser(commands)
    machine.add_parser(commands)
    ops.add_parser(commands)
    variables.add_parser(commands)
    completion.add_parser(commands, parser)
    return parser
