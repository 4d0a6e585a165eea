"""A chart of the memory of the card that a launch uses over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.cli.recipes.page.markup import Markup, level, svg, tag, tip
from habana_tf.reports.units import brief, size

_WIDTH, _HEIGHT = 380, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 12, 34


def picture(card: dict[str, Any], memory: str, room: int) -> Markup:
    """card: the prediction of a launch, see `timeline.intervals`. memory: "hbm" or "sram". room: its bytes."""
    changes: Sequence[tuple[float, int]] = [(x["at"], x[memory]) for x in card["use"]]
    most = max((held for _, held in changes), default=0)
    name = memory.upper()
    if not most:
        return tag("p", f"The launch has nothing in {name}.", class_="quiet")
    end = card["seconds"] or 1e-9
    top = room if most > room / 2 else most

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / end

    def y(held: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - held / top)

    shapes: list[Markup] = []
    for k in range(5):
        shapes += level(size(top * k / 4), y(top * k / 4), _LEFT, _WIDTH - _RIGHT)
        shapes.append(tag("text", brief(end * k / 4) if k else "0", x=x(end * k / 4), y=_HEIGHT - _BOTTOM + 13,
                          text_anchor="end" if k == 4 else "middle", class_="label"))  # fmt: skip
    until = [at for at, _ in changes[1:]] + [end]
    line = " ".join(f"{x(t):.1f},{y(held):.1f}" for (a, held), b in zip(changes, until, strict=True) for t in (a, b))
    shapes.append(tag("polygon", points=f"{x(0):.1f},{y(0):.1f} {line} {x(end):.1f},{y(0):.1f}", class_="area"))
    shapes.append(tag("polyline", points=line, class_="line"))
    at = next(at for at, held in changes if held == most)
    about = f"most: {size(most)} of {size(room)}, {brief(at) if at else 'at'} {'after' if at else ''} the beginning"
    shapes.append(tag("circle", tip(" ".join(about.split())), cx=x(at), cy=y(most), r=4, class_="dot"))
    shapes.append(tag("text", "time on the card", x=_WIDTH / 2, y=_HEIGHT - 6, text_anchor="middle", class_="label"))
    return svg(_WIDTH, _HEIGHT, *shapes, label=f"bytes of {name} in use over a launch")
