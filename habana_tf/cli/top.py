"""`habana-tf top`: what the cards of this machine do while programs train: steps, launches, recipes, memory, ranks.

Everything is read from the state directory that `hl-smi` reads too (`hardware.telemetry`): nothing is asked of the
programs. Rates are differences of two readings of the same process.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.cli import numbers
from habana_tf.cli.output import in_colour, print_json
from habana_tf.reports.characters import columns, encoding_of
from habana_tf.reports.table import Table
from habana_tf.reports.units import size

if TYPE_CHECKING:
    from habana_tf.hardware.readings import Reading
    from habana_tf.hardware.telemetry import Telemetry

_RANKS = ("HABANA_SIM_RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""In the order in which `hardware.ranks` asks them."""


@dataclass(frozen=True)
class CardRow:
    """A card. *_per_second: of its process between two readings, None for a process that is new; recipes: that it
    compiled since it began, and new_recipes of them since `top` began; recompiled: of `recipes`, those for other sizes
    or values; cache_hits: recipes that the recipe cache had. memory in bytes, busy 0 to 1."""

    card: int
    chip: str
    rank: int | None
    pid: int | None
    command: str
    launches: int
    launches_per_second: float | None
    steps: int
    steps_per_second: float | None
    recipes: int
    new_recipes: int
    recompiled: int
    cache_hits: int
    memory: int
    memory_peak: int
    memory_total: int
    busy: float


def declare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
examples:
  habana-tf top                       until Ctrl-C
  habana-tf top --once --json         two readings, a second apart

columns:
  steps/s      steps of a training: how often the launch that updates variables
               was repeated; of several such launches the most frequent counts,
               so micro-batches count each. Batches of Keras' evaluate and predict
               count as well, because they update counters. Eager loops have
               none, which is shown as -
  launches/s   programs run, of eager ops too
  compiled     recipes; in parentheses those since `top` began
  again        of these, for other sizes or values of a cluster that had a
               recipe: if they go on, recompilation_report() in the program says
               why
  cache        recipes read from the cache (TF_RECIPE_CACHE_PATH), of these and
               those compiled; 0 where there is no cache
  memory       HBM that the process has taken
  at most      the most of it so far
  busy         part of the last second in which a launch ran

A narrow terminal has fewer columns, and --json all of them.
"""
    parser.add_argument(
        "--interval", type=numbers.seconds(3600, least=0.05), default=1.0, help="seconds between readings (default: 1)"
    )
    parser.add_argument("--once", action="store_true", help="print once, after one interval; so is a file or a pipe")
    parser.add_argument("--json", action="store_true", help="print JSON, once")
    parser.set_defaults(run=_top)


def _top(arguments: argparse.Namespace) -> int:
    from habana_tf.hardware import readings

    first = before = readings.read_all()
    began = time.monotonic()
    if arguments.once or arguments.json or not sys.stdout.isatty():
        time.sleep(arguments.interval)
        made = rows(first, before, readings.read_all(), time.monotonic() - began)
        if arguments.json:
            print_json([asdict(row) for row in made])
        else:
            print(*lines(made, columns(200), encoding_of()), sep="\n")
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        _live(first, arguments.interval)
    return 0


def _live(first: list[Reading], interval: float) -> None:
    """Redraws the table until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from habana_tf.hardware import readings

    before: list[Reading] = []  # without an interval there is no rate
    at = time.monotonic()
    console = Console(no_color=not in_colour())
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            now, then = readings.read_all(), time.monotonic()
            shown = lines(rows(first, before, now, then - at), columns(80), encoding_of())
            live.update(Text("\n".join(shown), no_wrap=True), refresh=True)
            before, at = now, then
            time.sleep(interval)


def rows(first: Sequence[Reading], before: Sequence[Reading], now: Sequence[Reading], seconds: float) -> list[CardRow]:
    """One for each card. seconds: between `before` and `now`; first: when counting began."""
    from habana_tf.hardware.telemetry import NOTHING

    begun, earlier = _counts(first), _counts(before)
    found = []
    for reading in now:
        holder = reading.holder
        pid = None if holder is None else holder.pid
        told = (holder and holder.telemetry) or NOTHING
        key = reading.card.module_id, pid
        known = earlier.get(key) if told is not NOTHING and seconds > 0 else None
        found.append(
            CardRow(
                reading.card.module_id, reading.chip.name, _rank(pid), pid, told.command,
                told.launches, None if known is None else (told.launches - known.launches) / seconds,
                told.steps, None if known is None else (told.steps - known.steps) / seconds,
                told.recipes, told.recipes - begun.get(key, NOTHING).recipes, told.recompiled, told.hits,
                reading.process_memory, told.memory_peak, reading.memory_total, reading.utilization,
            )
        )  # fmt: skip
    return found


def _counts(readings: Sequence[Reading]) -> Mapping[tuple[int, int | None], Telemetry]:
    """(card, process) -> what it had counted."""
    found = {(r.card.module_id, r.holder.pid): r.holder.telemetry for r in readings if r.holder is not None}
    return {key: told for key, told in found.items() if told is not None}


def _rank(pid: int | None) -> int | None:
    """The rank that a launcher gave a process; None for one that has none, or is another user's."""
    if not pid:
        return None
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            given: dict[str, Any] = dict(
                item.decode(errors="replace").split("=", 1) for item in file.read().split(b"\0") if b"=" in item
            )
    except OSError:
        return None
    return next((int(given[name]) for name in _RANKS if given.get(name, "").isdecimal()), None)


def _rate(each: float | None) -> str:
    return "-" if each is None else f"{each:,.1f}"


_LEFT_OUT = ("at most", "launches/s", "rank", "again")
"""Columns that go where a terminal has no room for all, in this order; the others fit into 80 columns."""


def lines(rows: Sequence[CardRow], columns: int, encoding: str | None = None) -> list[str]:
    """The cards that are held, and how many are free, in so many columns."""
    for count in range(len(_LEFT_OUT) + 1):
        out = table(rows, _LEFT_OUT[:count]).lines(columns, encoding)
        if len(out) < 2 or out[1].startswith("card"):
            break
    return out


def table(rows: Sequence[CardRow], left_out: Sequence[str] = ()) -> Table:
    """The cards that are held, a row each, without the columns `left_out`."""
    held = [row for row in rows if row.pid is not None]
    cells = [
        {
            ">card": row.card, ">rank": "-" if row.rank is None else row.rank,
            ">steps/s": _rate(row.steps_per_second if row.steps else None),
            ">launches/s": _rate(row.launches_per_second),
            ">compiled": f"{row.recipes:,}" + (f" (+{row.new_recipes})" if row.new_recipes else ""),
            ">again": f"{row.recompiled:,}", ">cache": f"{row.cache_hits:,} of {row.cache_hits + row.recipes:,}",
            ">memory": size(row.memory), ">at most": size(row.memory_peak), ">busy": f"{row.busy:.0%}",
            "process": f"{row.pid} {row.command}".strip(),
        }
        for row in held
    ]  # fmt: skip
    names = [name for name in (cells[0] if cells else ()) if name.removeprefix(">") not in left_out]
    free = [str(row.card) for row in rows if row.pid is None]
    title = f"{len(held)} of {len(rows)} cards in use" + (f", free: {', '.join(free)}" if free else "")
    return Table(names or ["", ""], [[str(row[name]) for name in names] for row in cells], title)
