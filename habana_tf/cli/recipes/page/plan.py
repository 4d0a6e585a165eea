"""The memory plan of a recipe as a picture: kernel calls from left to right, offsets in the workspace upwards.

A rectangle is a buffer, as wide as the calls it lives through and as high as it is large. The line is what is alive.
"""

from __future__ import annotations

from habana_tf.cli.recipes.contents import MemoryPlan
from habana_tf.cli.recipes.page.markup import Markup, level, svg, tag, tip
from habana_tf.reports.units import size

_WIDTH, _HEIGHT = 1120, 300
_LEFT, _BOTTOM, _TOP = 78, 24, 8
_COLOURS = 6


def picture(plan: MemoryPlan) -> Markup:
    total, calls = max(plan.total, 1), max(plan.launches, 1)
    column = (_WIDTH - _LEFT) / calls
    high = _HEIGHT - _TOP - _BOTTOM

    def y(offset: float) -> float:
        return _TOP + high * (1 - offset / total)

    shapes: list[Markup] = []
    for k in range(5):
        at = total * k / 4
        shapes += level(size(at), y(at), _LEFT, _WIDTH)
    for number, block in enumerate(sorted(plan.blocks, key=lambda b: (b.first, b.offset))):
        about = f"{size(block.nbytes)} at offset {block.offset}, alive from kernel call {block.first} to {block.last}"
        shapes.append(
            tag("rect", tip(about), x=_LEFT + block.first * column, y=y(block.offset + block.nbytes),
                width=(block.last - block.first + 1) * column, height=max(high * block.nbytes / total, 0.5),
                class_=f"buffer b{number % _COLOURS}")
        )  # fmt: skip
    alive = plan.alive()
    line = " ".join(
        f"{_LEFT + (k + end) * column:.1f},{y(n):.1f}" for k, n in enumerate(alive) for end in (0, 1)
    )  # fmt: skip
    shapes.append(tag("polyline", points=line, class_="alive"))
    every = max(1, calls // 16)
    for k in range(0, calls, every):
        x = _LEFT + (k + 0.5) * column
        shapes.append(tag("text", str(k), x=x, y=_HEIGHT - 8, text_anchor="middle", class_="label"))
    return svg(_WIDTH, _HEIGHT, *shapes, label="buffers of the workspace over the kernel calls")
