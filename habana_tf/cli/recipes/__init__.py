"""`habana-tf recipes`: the recipe cache on disk. One module per action or two that belong together.

Looking changes nothing: no entry is executed, moved or marked as used. Only `prune`, `clear` and `import` change the
directory, and none of them in mode ro.
"""

from __future__ import annotations

import argparse

from habana_tf.cli.recipes import bundles, code, differences, doctor, listing, report, show, stats, upkeep

_EPILOG = """\
examples:
  habana-tf recipes list --op conv --sort compile
  habana-tf recipes list --unused-for 30d --larger-than 1M
  habana-tf recipes show cluster_2cb107ca5327
  habana-tf recipes explain                          why the last run compiled
  habana-tf recipes diff 8c6e 432c
  habana-tf recipes asm 8c6e --kernel 3
  habana-tf recipes prune --max-size 512M --unused-for 30d
  habana-tf recipes export recipes.bundle            and on the other machine: habana-tf recipes import recipes.bundle
  habana-tf recipes report --html recipes.html

exit codes: 0 done; 1 not there, damaged, refused, or a problem was found (verify, doctor); 2 wrong usage or setting
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the actions."""
    parser = commands.add_parser(
        "recipes",
        help="compiled recipes in the cache on disk",
        description="Look into the recipe cache, look after it, and carry recipes to other machines.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for module in (listing, show, differences, stats, upkeep, bundles, doctor, code, report):
        module.add_parsers(actions)
