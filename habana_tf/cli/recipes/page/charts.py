"""Charts of the cache's history: compile times and size by time of creation, hits and misses by run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from habana_tf.cli.output import moment
from habana_tf.cli.recipes.page.markup import Markup, level, svg, tag, tip
from habana_tf.reports.units import duration, size

_WIDTH, _HEIGHT = 370, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 10, 28


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
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(made), 1)
    bars = [
        _bar(_LEFT + k * step, step, 0, m.compile_seconds / top, "spent",
             f"{m.name}: {duration(m.compile_seconds)}, {moment(m.created)}")
        for k, m in enumerate(made)
    ]  # fmt: skip
    label = "compile time of each recipe in order of creation"
    return svg(_WIDTH, _HEIGHT, *_axis(top, duration), *bars, *_ends(made), label=label)


def growth(made: Sequence[CreatedRecipe]) -> Markup:
    """The sum of the file sizes of what is there now, over the time of creation."""
    if not made:
        return svg(_WIDTH, _HEIGHT, *_axis(1, size), label="size over time")
    first, last = made[0].created, made[-1].created
    span = (last - first) or 1.0
    total = sum(m.file_bytes for m in made)
    inner = _WIDTH - _LEFT - _RIGHT
    points, marks, so_far = [(float(_LEFT), 0.0)], [], 0
    for m in made:
        x = _LEFT + inner * (m.created - first) / span
        points.append((x, so_far / total))
        so_far += m.file_bytes
        points.append((x, so_far / total))
        text = f"{m.name}: {size(m.file_bytes)}, then {size(so_far)} in all, {moment(m.created)}"
        marks.append(tag("circle", tip(text), cx=x, cy=_y(so_far / total), r=2.5, class_="dot"))
    points.append((float(_WIDTH - _RIGHT), 1.0))
    line = " ".join(f"{x:.1f},{_y(y):.1f}" for x, y in points)
    area = f"{_LEFT},{_y(0):.1f} {line} {_WIDTH - _RIGHT},{_y(0):.1f}"
    shapes = [tag("polygon", points=area, class_="area"), tag("polyline", points=line, class_="line"), *marks]
    axis = _axis(total, size, binary=True)
    return svg(_WIDTH, _HEIGHT, *axis, *shapes, *_ends(made), label="size of the recipes over time")


def history(runs: Sequence[RunCounts]) -> Markup:
    """A bar per run: what it found, and above it what it missed."""
    top = max((run.hits + run.misses for run in runs), default=0) or 1
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(runs), 1)
    bars = []
    for k, run in enumerate(runs):
        x = _LEFT + k * step
        text = (f"{run.name}, {moment(run.began)}: {run.hits} hits, {run.misses} misses, "
                f"{duration(run.spent)} spent, {duration(run.saved)} saved")  # fmt: skip
        bars.append(_bar(x, step, 0, run.hits / top, "hit", text))
        bars.append(_bar(x, step, run.hits / top, run.misses / top, "miss", text))
    axis = _axis(top, lambda n: f"{n:.3g}")
    return svg(_WIDTH, _HEIGHT, *axis, *bars, *_ends(runs), label="hits and misses of each run")


def _bar(x: float, step: float, start: float, height: float, kind: str, text: str) -> Markup:
    width = min(max(step * 0.8, 0.5), 40)
    x += (step - width) / 2
    top = _y(start + height)
    return tag("rect", tip(text), x=x, y=top, width=width, height=max(_y(start) - top, 0.0), class_=kind)


def _y(part: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - part)


def _axis(top: float, form: Callable[[float], str], binary: bool = False) -> list[Markup]:
    """Lines at round numbers up to `top`; for bytes (`binary`), at powers of two."""
    raw = top / 4
    power = 10.0 ** floor(log10(raw))
    step = 2.0 ** ceil(log2(raw)) if binary else next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    marks: list[Markup] = []
    value = 0.0
    while value <= top * 1.0001:
        marks += level(form(value), _y(value / top), _LEFT, _WIDTH - _RIGHT)
        value += step
    return marks


def _ends(things: Sequence[CreatedRecipe | RunCounts]) -> list[Markup]:
    """Labels with the first and the last time."""
    times = [t.created if isinstance(t, CreatedRecipe) else t.began for t in things]
    if not times:
        return [tag("text", "nothing yet", x=_WIDTH / 2, y=_HEIGHT / 2, text_anchor="middle", class_="label")]
    ends = [tag("text", moment(times[0]), x=_LEFT, y=_HEIGHT - 10, class_="label")]
    if len(times) > 1:
        ends.append(
            tag("text", moment(times[-1]), x=_WIDTH - _RIGHT, y=_HEIGHT - 10, text_anchor="end", class_="label")
        )
    return ends
