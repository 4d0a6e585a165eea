"""A roofline: the rates that the card's peaks allow at each ratio of operations to bytes, and its units of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10

from habana_tf.card.timeline.summary import ProgramTotals
from habana_tf.cli.recipes.page.markup import Markup, level, svg, tag, tip
from habana_tf.hardware.chips import Chip
from habana_tf.reports.units import brief, operations, size

_WIDTH, _HEIGHT = 380, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 34
_MOST = 500
"""Units that are drawn, the costliest."""
_Scale = Callable[[float], float]
"""From a value to its place on the page."""


def picture(programs: Sequence[ProgramTotals], chip: Chip) -> Markup:
    """Units of work with operations and HBM traffic, as dots whose area is their predicted time in all launches."""
    every = [
        (u["flops"], u["nbytes"], u["seconds"] / p.drawn, u["seconds"] * p.launches, u)
        for p in programs for u in p.units
    ]  # fmt: skip
    shown = sorted((each for each in every if each[0] and each[1]), key=lambda each: -each[3])[:_MOST]
    peaks = {"MME": chip.published_mme_flops or chip.peak_bf16_flops, "TPC": chip.published_tpc_flops}
    top = max(p for p in peaks.values() if p)
    ratios = [flops / nbytes for flops, nbytes, *_ in shown] or [1.0]
    rates = [flops / seconds for flops, _, seconds, *_ in shown] or [top]
    low, high = min(*ratios, 0.1), max(*ratios, 4 * top / chip.published_hbm_bandwidth)
    bottom = max(min(min(rates) / 2, top / 1e3), top / 1e7)

    def x(ratio: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (log10(ratio / low) / log10(high / low))

    def y(rate: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - log10(rate / bottom) / log10(2 * top / bottom))

    shapes = _grid(x, y, low, high, bottom, 2 * top)
    start = max(bottom / chip.published_hbm_bandwidth, low)
    for engine, peak in peaks.items():
        if peak is not None:
            knee = peak / chip.published_hbm_bandwidth
            points = f"{x(start):.1f},{y(start * chip.published_hbm_bandwidth):.1f} {x(knee):.1f},{y(peak):.1f}"
            shapes.append(tag("polyline", points=f"{points} {x(high):.1f},{y(peak):.1f}", class_="line"))
            text = f"{engine} {peak / 1e12:.3g} TFLOPS"
            shapes.append(tag("text", text, x=x(high), y=y(peak) - 4, text_anchor="end", class_="label"))
    most = max((all_ for *_, all_, _ in shown), default=1.0)
    for flops, nbytes, seconds, all_, u in shown:
        about = (f"{u['name']}: {operations(flops)} operations, {size(nbytes)}, {brief(seconds)} a launch, "
                 f"bound by {u['bound']}")  # fmt: skip
        shapes.append(
            tag("circle", tip(about), cx=x(flops / nbytes), cy=y(max(flops / seconds, bottom)),
                r=1.5 + 6 * (all_ / most) ** 0.5, class_=f"kernel-dot {u['engine']}")
        )  # fmt: skip
    return svg(_WIDTH, _HEIGHT, *shapes, label="operations per second over operations per byte of every unit of work")


def _grid(x: _Scale, y: _Scale, low: float, high: float, bottom: float, top: float) -> list[Markup]:
    shapes: list[Markup] = []
    for power in range(-3, 7):
        if low <= 10.0**power <= high:
            at = x(10.0**power)
            shapes.append(tag("line", x1=at, x2=at, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="grid"))
            shapes.append(tag("text", f"{10.0**power:g}", x=at, y=_HEIGHT - _BOTTOM + 13,
                              text_anchor="middle", class_="label"))  # fmt: skip
    for power in range(6, 17):
        if bottom <= 10.0**power <= top:
            shapes += level(f"{operations(10.0**power)}/s", y(10.0**power), _LEFT, _WIDTH - _RIGHT)
    shapes.append(tag("text", "operations per byte", x=_WIDTH / 2, y=_HEIGHT - 6, text_anchor="middle", class_="label"))
    return shapes
