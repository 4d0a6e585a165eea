"""A roofline: the rates that the card's peaks allow at each ratio of operations to bytes, and its units of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10

from habana_tf.card.timeline.summary import ProgramTotals
from habana_tf.cli.recipes.page.frame import Frame
from habana_tf.hardware.chips import Chip
from habana_tf.reports.page.markup import Markup, tag, tip
from habana_tf.reports.units import brief, operations, size

_FRAME = Frame(380, 270, left=46)
_MOST = 500
"""Units that are drawn, the costliest."""
_Scale = Callable[[float], float]
"""From a value to the part of the width or height where it is."""


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
        return log10(ratio / low) / log10(high / low)

    def y(rate: float) -> float:
        return log10(rate / bottom) / log10(2 * top / bottom)

    shapes = _grid(x, y, low, high, bottom, 2 * top)
    start = max(bottom / chip.published_hbm_bandwidth, low)
    for engine, peak in peaks.items():
        if peak is not None:
            knee = peak / chip.published_hbm_bandwidth
            points = [(start, start * chip.published_hbm_bandwidth), (knee, peak), (high, peak)]
            shapes.append(_FRAME.curve([(x(ratio), y(rate)) for ratio, rate in points]))
            text = f"{engine} {peak / 1e12:.3g} TFLOPS"
            shapes.append(tag("text", text, x=_FRAME.x(1), y=_FRAME.y(y(peak)) - 4, text_anchor="end", class_="label"))
    most = max((all_ for *_, all_, _ in shown), default=1.0)
    for flops, nbytes, seconds, all_, u in shown:
        about = (f"{u['name']}: {operations(flops)} operations, {size(nbytes)}, {brief(seconds)} a launch, "
                 f"bound by {u['bound']}")  # fmt: skip
        shapes.append(
            tag("circle", tip(about), cx=_FRAME.x(x(flops / nbytes)),
                cy=_FRAME.y(y(max(flops / seconds, bottom))), r=1.5 + 6 * (all_ / most) ** 0.5,
                class_=f"kernel-dot {u['engine']}")
        )  # fmt: skip
    return _FRAME.drawn(*shapes, label="operations per second over operations per byte of every unit of work")


def _grid(x: _Scale, y: _Scale, low: float, high: float, bottom: float, top: float) -> list[Markup]:
    f = _FRAME
    shapes: list[Markup] = []
    for ratio in (10.0**power for power in range(-3, 7)):
        if low <= ratio <= high:
            at = f.x(x(ratio))
            shapes.append(tag("line", x1=at, x2=at, y1=f.y(1), y2=f.y(0), class_="grid"))
            shapes.append(f.below(f"{ratio:g}", x(ratio), 13))
    for rate in (10.0**power for power in range(6, 17)):
        if bottom <= rate <= top:
            shapes += f.level(f"{operations(rate)}/s", y(rate))
    return [*shapes, f.below("operations per byte", 0.5, 28)]
