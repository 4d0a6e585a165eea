"""`habana-tf recipes`: the recipe cache on disk. One module per action, or for those that belong together.

Looking changes nothing: no entry is executed, moved or marked as used. Only `prune`, `clear` and `import` change the
directory, and none of them in mode ro.
"""

from __future__ import annotations

import argparse

from habana_tf.cli.lazy_parsers import listed

_ACTIONS = (
    ("list", "list the recipes", "listing:declare"),
    ("show", "show everything about one recipe", "show:declare"),
    ("explain", "say why the last run compiled: which part of the key differs from the nearest recipe",
     "differences:declare_explain"),
    ("diff", "compare two recipes: keys, ops, sizes", "differences:declare_diff"),
    ("stats", "hits, misses and time spent and saved, per run and in all", "stats:declare"),
    ("verify", "read every recipe whole and verify it", "upkeep:declare_verify"),
    ("prune", "remove recipes that were not used for long, down to a size", "upkeep:declare_prune"),
    ("clear", "remove all recipes and the journal", "upkeep:declare_clear"),
    ("export", "write recipes into a bundle", "bundles:declare_export"),
    ("import", "add the recipes of a bundle", "bundles:declare_import"),
    ("path", "print the cache directory", "upkeep:declare_path"),
    ("ir", "print what a recipe was compiled from", "code:declare_ir"),
    ("asm", "print a recipe's machine code", "code:declare_asm"),
    ("report", "write a page with pictures: history, fused graphs, memory plans", "report:declare"),
)  # fmt: skip
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

`habana-tf check --recipes` looks for what keeps the cache from working: permissions, space, locks, damage, settings.

exit codes: 0 done; 1 not there, damaged, refused, left out (export, import), or a problem was found (verify);
2 wrong usage or setting
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.description = "Look into the recipe cache, look after it, and carry recipes to other machines."
    parser.epilog = _EPILOG
    listed(parser, "action", [(name, help_, f"{__name__}.{where}") for name, help_, where in _ACTIONS])
