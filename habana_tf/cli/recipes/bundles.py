"""`habana-tf recipes export` and `import`: recipes in one file, for machines with the same CPU."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from habana_tf.cli.output import print_json
from habana_tf.cli.recipes.common import action, header, only_match, opened, rows_of
from habana_tf.files.escaped import escaped
from habana_tf.reports.units import size

if TYPE_CHECKING:
    from habana_tf.cache import Exported, Imported


def declare_export(parser: argparse.ArgumentParser) -> None:
    action(parser, _export, "export recipes.bundle", "export step.bundle 8c6e 432c")
    parser.add_argument("file", metavar="FILE", help="the bundle, replaced whole")
    parser.add_argument("recipe", metavar="NAME_OR_KEY", nargs="*", help="only these (default: all)")


def declare_import(parser: argparse.ArgumentParser) -> None:
    action(parser, _import, "import recipes.bundle --path ~/.cache/recipes")
    parser.add_argument("file", metavar="FILE", help="a bundle; yours and not writable for others, or signed")


def _export(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    reader = opened(arguments)
    chosen = None
    if arguments.recipe:
        good, _ = rows_of(reader)
        chosen = {header(only_match(good, wanted, reader.root))["digest"] for wanted in arguments.recipe}
    done = cache.export_bundle(
        arguments.file, reader.root, lambda row: chosen is None or header(row)["digest"] in chosen
    )
    return _told(arguments, done, f"{done.recipes} recipes, {size(done.file_bytes)}, in {arguments.file}")


def _import(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    done = cache.import_bundle(arguments.file, arguments.path)
    return _told(arguments, done, f"{done.added} recipes added, {done.present} were there")


def _told(arguments: argparse.Namespace, done: Exported | Imported, summary: str) -> int:
    """Exit code 1 when something was left out."""
    if arguments.json:
        print_json({"file": arguments.file, **asdict(done)})
    else:
        print(summary)
        for which, why in done.problems:
            print(escaped(f"left out: {which}: {why}"), file=sys.stderr)
    return 1 if done.problems else 0
