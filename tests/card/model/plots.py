"""The plots of `docs/fidelity.md`."""

from __future__ import annotations

import math
from collections.abc import Sequence

SIDE, EDGE = 360, 50
COLOURS = {"gaudi": "#b35900", "gaudi2": "#2a5db0", "gaudi3": "#1f7a3d"}
MARKS = {"gaudi": "circle", "gaudi2": "square", "gaudi3": "diamond"}


def _mark(chip: str, x: float, y: float, filled: bool) -> str:
    fill = COLOURS[chip] if filled else "none"
    style = f'fill="{fill}" stroke="{COLOURS[chip]}"'
    if MARKS[chip] == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if MARKS[chip] == "diamond" else ""
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {style}{turn}/>'


Point = tuple[str, float, float, bool]
"""Chip, published, predicted, whether the model stands for it."""


def plot(points: Sequence[Point], low: float, high: float) -> str:
    """Predicted against published throughput per card, both logarithmic, as SVG; the band is ten percent. Hollow marks
    are rows that the model does not stand for."""

    def at(value: float) -> float:
        return EDGE + math.log(value / low) / math.log(high / low) * SIDE

    def y(value: float) -> float:
        return SIDE + 2 * EDGE - at(value)

    def band(factor: float) -> str:
        return f"{at(low):.1f},{y(low * factor):.1f} {at(high):.1f},{y(high * factor):.1f}"

    back = " ".join(reversed(band(0.9).split()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE + 2 * EDGE + 60} {SIDE + 2 * EDGE}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><polygon points="{band(1.1)} {back}" fill="#dde6f0"/>',
        f'<polyline points="{band(1.0)}" stroke="#446" fill="none"/>',
    ]
    for tick in (t * 10**k for k in range(-1, 5) for t in (1, 2, 5)):
        if low <= tick <= high:
            parts.append(f'<text x="{at(tick):.1f}" y="{EDGE + SIDE + 16}" text-anchor="middle">{tick:g}</text>')
            parts.append(f'<text x="{EDGE - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for chip, published, predicted, filled in points:
        parts.append(_mark(chip, at(published), y(predicted), filled))
    for k, chip in enumerate(COLOURS):
        parts.append(_mark(chip, EDGE + SIDE + 20, EDGE + 16 * k, True))
        parts.append(f'<text x="{EDGE + SIDE + 30}" y="{EDGE + 4 + 16 * k}">{chip}</text>')
    parts.append(f'<text x="{EDGE + SIDE / 2}" y="{EDGE + SIDE + 36}" text-anchor="middle">published, per card</text>')
    middle = EDGE + SIDE / 2
    turned = f'x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle"'
    parts.append(f"<text {turned}>predicted</text></svg>")
    return "\n".join(parts) + "\n"
