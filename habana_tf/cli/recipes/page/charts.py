"""Charts of the cache's history: compile times and size by time of creation, hits and misses by run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log2, log10
from typing import Any

from habana_tf.cache import Listed
from habana_tf.cli.output import moment
from habana_tf.cli.recipes.common import header
from habana_tf.cli.recipes.page.frame import Frame
from habana_tf.reports.page.markup import Markup, tag, tip
from habana_tf.reports.units import duration, size

_FRAME = Frame(370, 180, left=56, right=8, top=10, bottom=28)


def compile_times(rows: Sequence[Listed]) -> Markup:
    """A bar per recipe in the order in which they came; the height is its compile time."""
    made = [header(row) for row in rows]
    top = max((m["compile_seconds"] for m in made), default=0.0) or 1.0
    bars = [
        _bar(k, len(made), 0, m["compile_seconds"] / top, "spent",
             f"{m['name']}: {duration(m['compile_seconds'])}, {moment(m['created'])}")
        for k, m in enumerate(made)
    ]  # fmt: skip
    ends = _ends([m["created"] for m in made])
    return _FRAME.drawn(*_axis(top, duration), *bars, *ends, label="compile time of each recipe in order of creation")


def growth(rows: Sequence[Listed]) -> Markup:
    """The sum of the file sizes of what is there now, over the time of creation, in which the rows come."""
    times = [header(row)["created"] for row in rows]
    span = (times[-1] - times[0] if times else 0.0) or 1.0
    total = sum(row.file_bytes for row in rows) or 1
    points, marks, so_far = [(0.0, 0.0)], [], 0
    for row, created in zip(rows, times, strict=True):
        at = (created - times[0]) / span
        points.append((at, so_far / total))
        so_far += row.file_bytes
        points.append((at, so_far / total))
        text = f"{header(row)['name']}: {size(row.file_bytes)}, then {size(so_far)} in all, {moment(created)}"
        x, y = _FRAME.x(at), _FRAME.y(so_far / total)
        marks.append(tag("circle", tip(text), cx=x, cy=y, r=2.5, class_="dot"))
    points.append((1.0, so_far / total))
    shapes = [*_axis(total, size, binary=True), _FRAME.curve(points, "area"), _FRAME.curve(points), *marks]
    return _FRAME.drawn(*shapes, *_ends(times), label="size of the recipes over time")


def history(runs: Sequence[dict[str, Any]]) -> Markup:
    """A bar per run (as `stats.run_json` has it): what it found, and above it what it missed."""
    counts = [(run["events"]["hit"], run["events"]["miss"]) for run in runs]
    top = max(map(sum, counts), default=0) or 1
    bars = []
    for k, (run, (hits, misses)) in enumerate(zip(runs, counts, strict=True)):
        text = (f"{run['run']}, {moment(run['began'])}: {hits} hits, {misses} misses, "
                f"{duration(run['compile_seconds'])} spent, {duration(run['saved_seconds'])} saved")  # fmt: skip
        bars.append(_bar(k, len(runs), 0, hits / top, "hit", text))
        bars.append(_bar(k, len(runs), hits / top, misses / top, "miss", text))
    ends = _ends([run["began"] for run in runs])
    return _FRAME.drawn(*_axis(top, lambda n: f"{n:.3g}"), *bars, *ends, label="hits and misses of each run")


def _bar(number: int, count: int, start: float, height: float, kind: str, text: str) -> Markup:
    """One of so many side by side, from a part of the height on."""
    step = _FRAME.x(1 / count) - _FRAME.left
    width, top = min(max(step * 0.8, 0.5), 40), _FRAME.y(start + height)
    x = _FRAME.left + number * step + (step - width) / 2
    return tag("rect", tip(text), x=x, y=top, width=width, height=max(_FRAME.y(start) - top, 0.0), class_=kind)


def _axis(top: float, form: Callable[[float], str], binary: bool = False) -> list[Markup]:
    """Lines at round numbers up to `top`; for bytes (`binary`), at powers of two."""
    raw = top / 4
    power = 10.0 ** floor(log10(raw))
    step = 2.0 ** ceil(log2(raw)) if binary else next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    count = int(top * 1.0001 / step) + 1
    return [shape for k in range(count) for shape in _FRAME.level(form(k * step), k * step / top)]


def _ends(times: Sequence[float]) -> list[Markup]:
    """Labels with the first and the last time."""
    if not times:
        return [tag("text", "nothing yet", x=_FRAME.x(0.5), y=_FRAME.y(0.5), text_anchor="middle", class_="label")]
    last = [_FRAME.below(moment(times[-1]), 1, 18, "end")] if len(times) > 1 else []
    return [_FRAME.below(moment(times[0]), 0, 18, "start"), *last]
