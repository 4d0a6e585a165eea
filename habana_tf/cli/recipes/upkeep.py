"""`habana-tf recipes path`, `verify`, `prune` and `clear`: where the cache is; read it whole, clean it."""

from __future__ import annotations

import argparse
import os
import sys

from habana_tf.cli.output import CommandError, painted, print_json
from habana_tf.cli.recipes.common import action, age, byte_size, opened
from habana_tf.files.escaped import escaped
from habana_tf.reports.units import duration, size


def declare_path(parser: argparse.ArgumentParser) -> None:
    action(parser, _path, "path", "path --json")


def declare_verify(parser: argparse.ArgumentParser) -> None:
    action(parser, _verify, "verify", "verify --json")


def declare_prune(parser: argparse.ArgumentParser) -> None:
    action(parser, _prune, "prune", "prune --unused-for 30d", "prune --max-size 512M")
    size_help = "remove the least recently used down to this size (default: TF_RECIPE_CACHE_SIZE_MB)"
    parser.add_argument("--max-size", metavar="SIZE", type=byte_size, help=size_help)
    parser.add_argument("--unused-for", metavar="AGE", type=age, help="remove those not used for so long")


def declare_clear(parser: argparse.ArgumentParser) -> None:
    action(parser, _clear, "clear", "clear --yes")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _path(arguments: argparse.Namespace) -> int:
    from habana_tf.cache.reader import root_of

    root = os.path.abspath(root_of(arguments.path))
    if arguments.json:
        print_json({"path": root, "exists": os.path.isdir(root)})
    else:
        print(root)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from habana_tf import cache

    reader = opened(arguments)
    result = cache.verify(reader.root)
    if arguments.json:
        print_json({"path": reader.root, **asdict(result)})
    else:
        rate = f", {size(result.file_bytes / result.seconds)}/s" if result.file_bytes else ""
        taken = f"{size(result.file_bytes)} in {duration(result.seconds)}{rate}"
        print(f"{result.good} intact, {taken}, in {escaped(reader.root)}")
        for path, problem in result.problems:
            print(f"{painted('unusable', 'red')}: {escaped(path)}: {escaped(problem)}")
    return 1 if result.problems else 0


def _prune(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    reader = opened(arguments)
    most = arguments.max_size
    if most is None and arguments.unused_for is None:
        most = reader.options.limit
    swept = cache.prune(reader.root, max_bytes=most, unused_for=arguments.unused_for)
    return _removed(arguments, reader.root, swept)


def _clear(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    reader = opened(arguments)
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise CommandError(f"clear removes every recipe in {reader.root}: pass --yes", 2)
        count = len(reader.listing())
        print(
            f"Remove all {count} recipes and the journal in {escaped(reader.root)}? [y/N] ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandError("nothing was removed", 1)
    swept = cache.clear(reader.root)
    return _removed(arguments, reader.root, swept)


def _removed(arguments: argparse.Namespace, root: str, swept: object) -> int:
    from dataclasses import asdict

    from habana_tf.cache import Swept

    assert isinstance(swept, Swept)
    if arguments.json:
        print_json({"path": root, **asdict(swept)})
    else:
        print(
            f"{swept.removed} files, {size(swept.removed_bytes)} removed; {swept.kept}, {size(swept.kept_bytes)} left"
        )
    return 0
