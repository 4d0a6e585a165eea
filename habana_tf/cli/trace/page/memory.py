"""A chart of the memory of the card that a launch uses over time."""

from __future__ import annotations

from typing import Any

from habana_tf.cli.recipes.page.frame import Frame
from habana_tf.reports.page.markup import Markup, tag, tip
from habana_tf.reports.units import brief, size

_FRAME = Frame(380, 270, left=56)


def picture(card: dict[str, Any], memory: str, room: int) -> Markup:
    """card: the prediction of a launch, see `timeline.intervals`. memory: "hbm" or "sram". room: its bytes."""
    most = max((x[memory] for x in card["use"]), default=0)
    name, f = memory.upper(), _FRAME
    if not most:
        return tag("p", f"The launch has nothing in {name}.", class_="quiet")
    end = card["seconds"] or 1e-9
    top = room if most > room / 2 else most
    shapes: list[Markup] = []
    for k in range(5):
        shapes += f.level(size(top * k / 4), k / 4)
        shapes.append(f.below(brief(end * k / 4) if k else "0", k / 4, 13, "end" if k == 4 else "middle"))
    until = [x["at"] for x in card["use"][1:]] + [end]
    steps = [(t / end, x[memory] / top) for x, b in zip(card["use"], until, strict=True) for t in (x["at"], b)]
    shapes += [f.curve([(0, steps[0][1]), *steps, (1, steps[-1][1])], "area"), f.curve(steps)]
    at = next(x["at"] for x in card["use"] if x[memory] == most)
    about = f"most: {size(most)} of {size(room)}, {f'{brief(at)} after' if at else 'at'} the beginning"
    shapes.append(tag("circle", tip(about), cx=f.x(at / end), cy=f.y(most / top), r=4, class_="dot"))
    shapes.append(f.below("time on the card", 0.5, 28))
    return f.drawn(*shapes, label=f"bytes of {name} in use over a launch")
