"""`habana-tf`: start programs on several cards, predict them, build kernels; look at recipes, the machine, settings.

One module per command; each has `declare`, which gives a parser its arguments and the function that runs it and
returns the exit code. A module is imported when its command is chosen (`lazy_parsers`), and imports what it needs
when it runs, so that a command that only looks is there at once.

Exit codes: 0 done; 1 what was asked for is not there, damaged or refused; 2 wrong usage or a wrong setting; 130 ended
by Ctrl-C. `run` returns what the first rank that failed returned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from habana_tf.cli.lazy_parsers import LazyParser, listed
from habana_tf.cli.output import command_error
from habana_tf.files.escaped import escaped
from habana_tf.reports.characters import never_fail
from habana_tf.version import __version__

_COMMANDS = (
    ("run", "start a program on several cards", "habana_tf.cli.run:declare"),
    ("trace", "run a program and write when what ran", "habana_tf.cli.trace:declare"),
    ("predict", "how fast a script would train on real cards", "habana_tf.cli.predict:declare"),
    ("predict-generation", "how fast a language model would answer", "habana_tf.cli.predict_generation:declare"),
    ("plan", "which cards a script needs to train so fast", "habana_tf.cli.plan:declare"),
    ("fp8-report", "what 8 bits do to the numbers of a script's model", "habana_tf.cli.fp8_report:declare"),
    ("build-kernel", "make a library of kernels in C", "habana_tf.cli.build_kernel:declare"),
    ("recipes", "compiled recipes in the cache on disk", "habana_tf.cli.recipes:declare"),
    ("top", "what the cards do while programs train", "habana_tf.cli.top:declare"),
    ("info", "chip, cards, host CPU and versions", "habana_tf.cli.machine:declare"),
    ("check", "whether this installation works, and what to do if not", "habana_tf.cli.check:declare"),
    ("ops", "ops that run on HPU, with element types and notes", "habana_tf.cli.ops:declare"),
    ("settings", "environment variables, their values and meanings", "habana_tf.cli.variables:declare"),
    ("completion", "print a script for shell completion", "habana_tf.cli.completion:declare"),
)
_EPILOG = """\
examples:
  TF_RECIPE_CACHE_PATH=/tmp/recipes habana-tf recipes list
  habana-tf recipes list --path /tmp/recipes --sort compile --json
  habana-tf recipes show 3fa9 --path /tmp/recipes
  habana-tf recipes explain
  habana-tf run -n 4 train.py
  habana-tf trace train.py
  habana-tf build-kernel my_kernel.c -o my_kernel.so
  habana-tf predict --chip gaudi2 --cards 8 train.py
  habana-tf predict-generation --input-length 128 --output-length 128 --tp 8 llama-70b/config.json
  habana-tf plan --target "8 hours" --dataset-size 1281167 --epochs 90 train.py
  habana-tf top
  habana-tf check
  habana-tf info
  habana-tf ops conv2d pool
  habana-tf settings
  eval "$(habana-tf completion bash)"

exit codes: 0 done; 1 not there, damaged or refused; 2 wrong usage or setting;
            130 ended by Ctrl-C (`top` on a terminal: 0, that is how it ends)
"""


INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; `arguments` are those of the process by default. Returns the exit code."""
    never_fail(sys.stdout, sys.stderr)
    try:
        chosen = parser().parse_args(arguments)
        if not getattr(chosen, "in_any_environment", False):
            _check_environment()
        code: int = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`| head`); nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        known = command_error(error)
        print(*map(escaped, (f"habana-tf: {known}", *known.more)), sep="\n", file=sys.stderr)
        return known.code


def _check_environment() -> None:
    """Raises SettingError for a variable of ours that does not exist. Most environments have none at all."""
    if any(name.startswith("HABANA_SIM_") for name in os.environ):
        from habana_tf.settings import habana as habana_variables

        habana_variables.check()


def parser() -> LazyParser:
    made = LazyParser(
        prog="habana-tf",
        description="Start programs on the simulated Gaudi; look at its recipes, machine, ops and settings.",
        epilog=_EPILOG,
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    listed(made, "command", _COMMANDS)
    return made
