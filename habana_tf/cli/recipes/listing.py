"""`habana-tf recipes list`: a line per recipe, those of single ops folded into one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from habana_tf.cli.output import moment, print_json, print_table
from habana_tf.cli.recipes.common import (
    KEY_DIGITS,
    action,
    age,
    byte_size,
    framework,
    header,
    op_count,
    opened,
    precision,
    rows_of,
    shortened,
    worked,
)
from habana_tf.files.escaped import escaped
from habana_tf.reports.table import Styled
from habana_tf.reports.units import duration, size

if TYPE_CHECKING:
    from habana_tf.cache.listing import Listed

# Most interesting first: what was used last, what is new, large, took long; names from A.
_ORDERS: dict[str, Callable[[Listed], Any]] = {
    "used": lambda row: -row.last_used,
    "created": lambda row: -header(row)["created"],
    "size": lambda row: -row.file_bytes,
    "compile": lambda row: -header(row)["compile_seconds"],
    "ops": lambda row: -op_count(row),
    "name": lambda row: (header(row)["name"], header(row)["digest"]),
}
_OF = 2
"""Where a line has the framework, which is left out where all recipes are of one."""


def declare(parser: argparse.ArgumentParser) -> None:
    action(
        parser,
        _list,
        "list",
        "list --name resnet --sort compile",
        "list --op conv --op matmul --larger-than 64K",
        "list --unused-for 30d --json",
    )
    add = parser.add_argument
    add("--sort", choices=sorted(_ORDERS), default="used", help="default: last used first")
    add("--reverse", action="store_true", help="the other way round")
    add("--all", action="store_true", help="also one line for each one-op recipe (eager ops)")
    add("--name", metavar="TEXT", help="only recipes with this in their name or their ops' outer scopes")
    add("--op", metavar="OP", action="append", default=[], help="only with an op whose type has this "
                        "in it, in any case; several times: with all of them")  # fmt: skip
    add("--larger-than", metavar="SIZE", type=byte_size, help="only larger files, such as 64K or 1M")
    add("--smaller-than", metavar="SIZE", type=byte_size, help="only smaller files")
    add("--older-than", metavar="AGE", type=age, help="only made longer ago, such as 12h or 30d")
    add("--newer-than", metavar="AGE", type=age, help="only made since")
    add("--unused-for", metavar="AGE", type=age, help="only not used for so long")


def _list(arguments: argparse.Namespace) -> int:
    reader = opened(arguments)
    every, bad = rows_of(reader, heads_only=not arguments.json)
    good = sorted(filter(_wanted(arguments), every), key=_ORDERS[arguments.sort], reverse=arguments.reverse)
    if arguments.json:
        print_json(
            {
                "path": reader.root,
                "recipes": [row.to_json() for row in good],
                "unusable": [row.to_json() for row in bad],
            }
        )
        return 0
    # An op or a name that was asked for is a choice already.
    unfolded = arguments.all or arguments.op or arguments.name
    folded: dict[str, list[Listed]] = {}
    lines = []
    for row in good:
        if unfolded or op_count(row) != 1:
            lines.append(_line(row))
        else:
            folded.setdefault(framework(row), []).append(row)
    lines += [_folded_line(rows, name) for name, rows in sorted(folded.items())]
    columns: list[str] = ["name", "key", "of", "in", "type", "work", "inputs", ">size", ">compiled", "last use"]
    if len(set(map(framework, every))) < 2:
        columns, *lines = (cells[:_OF] + cells[_OF + 1 :] for cells in (columns, *lines))
    print_table(columns, lines)
    total, seconds = sum(row.file_bytes for row in good), sum(header(row)["compile_seconds"] for row in good)
    of = "" if len(good) == len(every) else f" of {len(every)}"
    print(f"\n{len(good)}{of} recipes, {size(total)}, compiled in {duration(seconds)}, in {escaped(reader.root)}")
    for row in bad:
        print(escaped(f"unusable: {row.path}: {row.problem}"), file=sys.stderr)
    return 0


def _wanted(arguments: argparse.Namespace) -> Callable[[Listed], bool]:
    now = time.time()
    tests: list[Callable[[Listed], bool]] = []
    if arguments.name:
        name = arguments.name.lower()
        tests.append(lambda row: any(name in text.lower() for text in (header(row)["name"], *_scopes(row))))
    if arguments.op:
        ops = [op.lower() for op in arguments.op]
        tests.append(lambda row: all(any(op in have.lower() for have in header(row).get("ops") or ()) for op in ops))
    if arguments.larger_than is not None:
        tests.append(lambda row: row.file_bytes > arguments.larger_than)
    if arguments.smaller_than is not None:
        tests.append(lambda row: row.file_bytes < arguments.smaller_than)
    if arguments.older_than is not None:
        tests.append(lambda row: now - header(row)["created"] > arguments.older_than)
    if arguments.newer_than is not None:
        tests.append(lambda row: now - header(row)["created"] < arguments.newer_than)
    if arguments.unused_for is not None:
        tests.append(lambda row: now - row.last_used > arguments.unused_for)
    return (lambda row: all(test(row) for test in tests)) if tests else lambda row: True


def _scopes(row: Listed) -> list[str]:
    return list(header(row).get("scopes") or ())


def _line(row: Listed) -> list[str]:
    of = header(row)
    failed = "failure" in of
    return [
        Styled(of["name"], "red" if failed else "cyan"),
        of["digest"][:KEY_DIGITS],
        framework(row),
        shortened(", ".join(_scopes(row)), 18),
        precision(row),
        Styled("cannot be compiled", "red") if failed else shortened(worked(row), 48),
        shortened(of.get("takes", ""), 40),
        size(row.file_bytes),
        duration(of["compile_seconds"]),
        _last_use(row.last_used),
    ]


def _last_use(seconds: float) -> str:
    """Without seconds, and of this year without the year."""
    return moment(seconds)[:-3].removeprefix(time.strftime("%Y-"))


def _folded_line(rows: list[Listed], of: str) -> list[str]:
    """of: the framework of these."""
    names = sorted({op for row in rows for op in header(row)["ops"]})
    cells = [
        f"({len(rows)} one-op recipes)",
        "",
        of,
        "",
        "",
        shortened(", ".join(names), 24),
        "",
        size(sum(row.file_bytes for row in rows)),
        duration(sum(header(row)["compile_seconds"] for row in rows)),
        _last_use(max(row.last_used for row in rows)),
    ]
    return [Styled(cell, "dim") for cell in cells]
