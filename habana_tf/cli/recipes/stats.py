"""`habana-tf recipes stats`: hits, misses and times of all runs, from the cache's journal."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from habana_tf.cli.numbers import whole
from habana_tf.cli.output import moment, print_json, print_table
from habana_tf.cli.recipes.common import action, opened
from habana_tf.reports.table import Styled
from habana_tf.reports.units import duration, size

if TYPE_CHECKING:
    from habana_tf.cache import Run


def declare(parser: argparse.ArgumentParser) -> None:
    action(parser, _stats, "stats", "stats --runs 50 --json")
    parser.add_argument(
        "--runs", metavar="N", type=whole(1), default=10, help="how many of the last runs (default: 10)"
    )


def _stats(arguments: argparse.Namespace) -> int:
    from habana_tf import cache

    reader = opened(arguments)
    total, runs = cache.totals(reader.root), cache.runs(reader.root)
    last = runs[-arguments.runs :]
    if arguments.json:
        print_json(
            {"path": reader.root, "runs": len(runs), "totals": asdict(total), "last": [run_json(r) for r in last]}
        )
        return 0
    found, asked = total.disk_hits + total.shared, total.disk_hits + total.misses
    facts = [
        ("runs", f"{len(runs)}, {sum(not run.ended for run in runs)} without an end"),
        (
            "hits on disk",
            f"{total.disk_hits}" + (f" ({100 * total.disk_hits / asked:.0f} % of {asked})" if asked else ""),
        ),
        ("hits in memory", str(total.memory_hits)),
        ("misses", str(total.misses)),
        ("taken from others", f"{total.shared}, waited {duration(total.wait_seconds)}"),
        ("compiled", f"{total.compiled} in {duration(total.compile_seconds)}"),
        ("saved", f"{duration(total.saved_seconds)} by {found} recipes"),
        ("cannot be compiled", f"{total.failed} found, {total.known_failures} known"),
        ("damaged", _bad(total.corrupt)),
        ("not believed", _bad(total.refused)),
        ("file system errors", _bad(total.failures)),
        ("evicted", f"{total.evicted}, {size(total.evicted_bytes)}"),
    ]
    print_table(["", ""], facts)
    if last:
        print()
        columns = ["run", "began", ">hits", ">misses", ">compiled", ">in", ">saved", ""]
        print_table(columns, [_line(run) for run in reversed(last)])
    return 0


def run_json(run: Run) -> dict[str, Any]:
    """A run as JSON data: its events and counters."""
    kinds = ("hit", "miss", "compiled", "waited", "same", "corrupt", "refused", "failed")
    counted = {kind: run.count(kind) for kind in kinds}
    return {
        "run": run.run,
        "began": run.began,
        "events": counted,
        "ended": run.ended,
        "counts": asdict(run.counts),
        "compile_seconds": sum(e.seconds for e in run.events if e.event == "compiled"),
        "saved_seconds": sum(e.seconds for e in run.events if e.event == "hit"),
    }


def _line(run: Run) -> list[str]:
    data = run_json(run)
    events = data["events"]
    return [
        run.run,
        moment(run.began),
        str(events["hit"]),
        str(events["miss"]),
        str(events["compiled"]),
        duration(data["compile_seconds"]),
        duration(data["saved_seconds"]),
        Styled("" if run.ended else "no end: running or killed", "yellow"),
    ]


def _bad(number: int) -> str:
    return Styled(str(number), "red") if number else "0"
