"""`habana-tf recipes report`: the cache as one HTML page."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from habana_tf.cli.numbers import whole
from habana_tf.cli.output import print_json, write_file
from habana_tf.cli.recipes import contents
from habana_tf.cli.recipes.common import action, header, op_count, opened, rows_of
from habana_tf.cli.recipes.predicted import predictions
from habana_tf.cli.recipes.stats import run_json
from habana_tf.files.escaped import escaped
from habana_tf.reports.units import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from habana_tf.cache.entry import Entry
    from habana_tf.cache.listing import Listed
    from habana_tf.cache.reader import Reader
    from habana_tf.cli.recipes.page.page import PicturedRecipe

_EXAMPLE_SIZE = 32
"""Drawn for where nothing says what sizes a recipe meets."""


def declare(parser: argparse.ArgumentParser) -> None:
    action(parser, _report, "report --html recipes.html")
    parser.add_argument("--html", metavar="FILE", required=True, help="the page; it holds all it needs")
    parser.add_argument("--quick", action="store_true", help="without predictions, which import TensorFlow")
    parser.add_argument("--most", metavar="N", type=whole(1), default=24,
                        help="how many recipes are drawn, last used first (default: 24)")  # fmt: skip


def _report(arguments: argparse.Namespace) -> int:
    from habana_tf import cache
    from habana_tf.cli.recipes.page.page import Facts, page

    reader = opened(arguments)
    good, bad = rows_of(reader)
    totals, runs = cache.totals(reader.root), [run_json(run) for run in cache.runs(reader.root)]
    drawn, unreadable = _drawn(reader, good, arguments.most, arguments.quick)
    text = page(Facts(reader.root, good, [*bad, *unreadable], totals, runs, drawn)).encode(errors="replace")
    write_file(arguments.html, text)
    if arguments.json:
        print_json({"file": arguments.html, "bytes": len(text), "recipes": len(good), "drawn": len(drawn)})
    else:
        print(f"{len(good)} recipes, {len(drawn)} of them drawn, {size(len(text))}, in {escaped(arguments.html)}")
    return 0


def _drawn(reader: Reader, rows: Sequence[Listed], most: int, quick: bool) -> tuple[list[PicturedRecipe], list[Listed]]:
    """The recipes of several ops that were used last, and those of them that turn out to be damaged."""
    from habana_tf.cache import EntryError, Refused
    from habana_tf.cli.recipes.page.page import PicturedRecipe

    several = [row for row in rows if op_count(row) > 1 and "failure" not in header(row)]
    chosen = sorted(several, key=lambda row: -row.last_used)[:most]
    drawn: list[PicturedRecipe] = []
    bad: list[Listed] = []
    for row in chosen:
        try:
            entry = reader.inspect(row)
        except (EntryError, Refused, OSError) as error:
            bad.append(row._replace(problem=str(error)))
            continue
        if contents.kernels(entry):
            sizes, why = _sizes(entry, row, several)
            times = ({}, "") if quick else predictions(entry, sizes)
            drawn.append(PicturedRecipe(row, entry, sizes, why, *times))
    return drawn, bad


def _sizes(entry: Entry, row: Listed, rows: Sequence[Listed]) -> tuple[tuple[int, ...], str]:
    """Sizes for what a recipe leaves open: those that another recipe of the same cluster was compiled for."""
    count = contents.symbols(entry)
    if not count:
        return (), ""
    mine = header(row)
    for other in sorted(rows, key=lambda r: -header(r)["created"]):
        theirs = header(other)
        if dict(map(tuple, theirs["key"])).get("cluster") != dict(map(tuple, mine["key"])).get("cluster"):
            continue
        found = _matched(mine["inputs"], theirs["inputs"])
        if found is not None and all(f"s{k}" in found for k in range(count)):
            return tuple(found[f"s{k}"] for k in range(count)), "another recipe of this cluster was compiled for that"
    return (_EXAMPLE_SIZE,) * count, "nothing tells what sizes it meets"


def _matched(open_: Sequence[Any], fixed: Sequence[Any]) -> dict[str, int] | None:
    """What the symbols of open input shapes are in fixed ones; None where they do not fit."""
    found: dict[str, int] = {}
    for a, b in zip(open_, fixed, strict=False):
        if len(a["shape"]) != len(b["shape"]):
            return None
        for x, y in zip(a["shape"], b["shape"], strict=True):
            if not isinstance(y, int):
                return None
            if isinstance(x, str) and found.setdefault(x, y) != y:
                return None
    return found
