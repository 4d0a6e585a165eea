"""`habana-tf recipes export` and `import`: recipes in one file, for machines with the same CPU."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from habana_tf.cli.output import print_json, size
from habana_tf.cli.recipes.common import Actions, action, errors, header, only_match, opened, rows_of


def add_parsers(actions: Actions[argparse.ArgumentParser]) -> None:
    """Declares the actions."""
    export = action(
        actions, "export", "write recipes into a bundle", "export recipes.bundle", "export step.bundle 8c6e 432c"
    )
    export.add_argument("file", metavar="FILE", help="the bundle, replaced whole")
    export.add_argument("recipe", metavar="NAME_OR_KEY", nargs="*", help="only these (default: all)")
    export.set_defaults(run=_export)

    take = action(actions, "import", "add the recipes of a bundle", "import recipes.bundle --path ~/.cache/recipes")
    take.add_argument("file", metavar="FILE", help="a bundle; yours and not writable for others, or signed")
    take.set_defaults(run=_import)


def _export(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    store = opened(arguments)
    chosen = None
    if arguments.recipe:
        good, _ = rows_of(store)
        chosen = {header(only_match(good, wanted, store.root))["digest"] for wanted in arguments.recipe}
    with errors():
        done = cache.export_bundle(
            arguments.file, store.root, lambda row: chosen is None or header(row)["digest"] in chosen
        )
    if arguments.json:
        print_json({"file": arguments.file, **asdict(done)})
    else:
        print(f"{done.recipes} recipes, {size(done.file_bytes)}, in {arguments.file}")
        _complain(done.problems)
    return 1 if done.problems else 0


def _import(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    with errors():
        done = cache.import_bundle(arguments.file, arguments.path)
    if arguments.json:
        print_json({"file": arguments.file, **asdict(done)})
    else:
        print(f"{done.added} recipes added, {done.present} were there")
        _complain(done.problems)
    return 1 if done.problems else 0


def _complain(problems: tuple[tuple[str, str], ...]) -> None:
    for which, why in problems:
        print(f"left out: {which}: {why}", file=sys.stderr)
