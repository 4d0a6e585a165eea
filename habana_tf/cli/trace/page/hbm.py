"""HBM that a launch holds, over the card's time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.cli.output import brief, size
from habana_tf.cli.recipes.page.markup import Markup, svg, tag, tip

_WIDTH, _HEIGHT = 380, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 12, 34


def picture(card: dict[str, Any]) -> Markup:
    """card: the prediction of a launch, see `timeline.part`; its intervals say what is in use."""
    steps: Sequence[tuple[float, float, int, str]] = [
        (start, start + seconds, held, name)
        for _, start, seconds, name, _, held, *_ in card["intervals"]
        if held is not None
    ]
    if not steps:
        return tag("p", "Nothing is known of this launch's memory.", class_="quiet")
    end, most = max(x[1] for x in steps) or 1e-9, max(x[2] for x in steps) or 1

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / end

    def y(held: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - held / most)

    shapes = []
    for k in range(5):
        shapes.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y(most * k / 4), y2=y(most * k / 4), class_="grid"))
        shapes.append(tag("text", size(most * k / 4), x=_LEFT - 4, y=y(most * k / 4) + 3, text_anchor="end",
                          class_="label"))  # fmt: skip
        shapes.append(tag("text", brief(end * k / 4) if k else "0", x=x(end * k / 4), y=_HEIGHT - _BOTTOM + 13,
                          text_anchor="end" if k == 4 else "middle", class_="label"))  # fmt: skip
    line = " ".join(f"{x(t):.1f},{y(held):.1f}" for a, b, held, _ in steps for t in (a, b))
    shapes.append(tag("polygon", points=f"{x(0):.1f},{y(0):.1f} {line} {x(end):.1f},{y(0):.1f}", class_="area"))
    shapes.append(tag("polyline", points=line, class_="line"))
    a, b, held, name = max(steps, key=lambda s: s[2])
    about = f"most: {size(held)}, while {name} runs"
    shapes.append(tag("circle", tip(about), cx=x((a + b) / 2), cy=y(held), r=4, class_="dot"))
    shapes.append(tag("text", "time on the card", x=_WIDTH / 2, y=_HEIGHT - 6, text_anchor="middle", class_="label"))
    return svg(_WIDTH, _HEIGHT, *shapes, label="bytes of HBM in use over a launch")
