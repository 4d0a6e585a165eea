"""Layers as a flame graph, made of nested HTML boxes as wide as the time they took, so that text fits at any width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from habana_tf.reports.page.markup import Markup, tag
from habana_tf.reports.units import brief

_LEAST = 0.0025
"""Of the whole: narrower boxes are left out, and would be a line."""
_DEEPEST = 8
_COLOURS = 6


@dataclass
class _Box:
    seconds: float = 0.0
    inner: dict[str, _Box] = field(default_factory=dict)


def picture(times: Mapping[tuple[str, ...], float], launches: int) -> Markup:
    """times: seconds by path, of all launches."""
    whole = _Box()
    for path, seconds in times.items():
        box = whole
        box.seconds += seconds
        for name in path[:_DEEPEST]:
            box = box.inner.setdefault(name, _Box())
            box.seconds += seconds
    if not whole.seconds:
        return tag("p", "No kernel calls were recorded.", class_="quiet")
    return tag("div", _drawn("a launch", whole, whole.seconds, launches, 0), class_="flame")


def _drawn(name: str, box: _Box, whole: float, launches: int, colour: int) -> Markup:
    share = box.seconds / whole
    about = f"{name}: {brief(box.seconds / launches)} per launch, {100 * share:.1f} %"
    inner = [
        _drawn(each, part, whole, launches, (colour + 1 + k) % _COLOURS)
        for k, (each, part) in enumerate(sorted(box.inner.items(), key=lambda item: -item[1].seconds))
        if part.seconds / whole >= _LEAST
    ]
    rest = box.seconds - sum(b.seconds for b in box.inner.values() if b.seconds / whole >= _LEAST)
    if inner and rest > 0:
        inner.append(tag("div", class_="gap", style=f"flex-grow:{1000 * rest / whole:.3f}"))
    label = tag("span", name, class_=f"b{colour} bar", title=about)
    return tag("div", label, tag("div", *inner, class_="within"), style=f"flex-grow:{1000 * share:.3f}", class_="frame")
