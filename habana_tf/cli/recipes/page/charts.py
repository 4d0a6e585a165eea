"""Charts of the cache's history: compile times and size by time of creation, hits and misses by run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from habana_tf.cli.output import moment
from habana_tf.cli.recipes.page.frame import Frame
from habana_tf.cli.recipes.page.markup import Markup, tag, tip
from habana_tf.reports.units import duration, size

_FRAME = Frame(370, 180, left=56, right=8, top=10, bottom=28)


@dataclass(frozen=True)
class CreatedRecipe:
    """A recipe in the charts, times in seconds."""

    name: str
    created: float
    compile_seconds: float
    file_bytes: int


@dataclass(frozen=True)
class RunCounts:
    """The cache's hits, misses and times in one run."""

    name: str
    began: float
    hits: int
    misses: int
    spent: float
    saved: float


def compile_times(made: Sequence[CreatedRecipe]) -> Markup:
    """A bar per recipe in the order in which they came; the height is its compile time."""
    top = max((m.compile_seconds for m in made), default=0.0) or 1.0
    bars = [
        _bar(k, len(made), 0, m.compile_seconds / top, "spent",
             f"{m.name}: {duration(m.compile_seconds)}, {moment(m.created)}")
        for k, m in enumerate(made)
    ]  # fmt: skip
    ends = _ends([m.created for m in made])
    return _FRAME.drawn(*_axis(top, duration), *bars, *ends, label="compile time of each recipe in order of creation")


def growth(made: Sequence[CreatedRecipe]) -> Markup:
    """The sum of the file sizes of what is there now, over the time of creation."""
    first, last = (made[0].created, made[-1].created) if made else (0.0, 0.0)
    span = (last - first) or 1.0
    total = sum(m.file_bytes for m in made) or 1
    points, marks, so_far = [(0.0, 0.0)], [], 0
    for m in made:
        at = (m.created - first) / span
        points.append((at, so_far / total))
        so_far += m.file_bytes
        points.append((at, so_far / total))
        text = f"{m.name}: {size(m.file_bytes)}, then {size(so_far)} in all, {moment(m.created)}"
        x, y = _FRAME.x(at), _FRAME.y(so_far / total)
        marks.append(tag("circle", tip(text), cx=x, cy=y, r=2.5, class_="dot"))
    points.append((1.0, so_far / total))
    shapes = [*_axis(total, size, binary=True), _FRAME.curve(points, "area"), _FRAME.curve(points), *marks]
    return _FRAME.drawn(*shapes, *_ends([m.created for m in made]), label="size of the recipes over time")


def history(runs: Sequence[RunCounts]) -> Markup:
    """A bar per run: what it found, and above it what it missed."""
    top = max((run.hits + run.misses for run in runs), default=0) or 1
    bars = []
    for k, run in enumerate(runs):
        text = (f"{run.name}, {moment(run.began)}: {run.hits} hits, {run.misses} misses, "
                f"{duration(run.spent)} spent, {duration(run.saved)} saved")  # fmt: skip
        bars.append(_bar(k, len(runs), 0, run.hits / top, "hit", text))
        bars.append(_bar(k, len(runs), run.hits / top, run.misses / top, "miss", text))
    ends = _ends([run.began for run in runs])
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
