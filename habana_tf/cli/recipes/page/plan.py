"""The memory plan of a recipe as a picture: kernel calls from left to right, offsets in the workspace upwards.

A rectangle is a buffer, as wide as the calls it lives through and as high as it is large. The line is what is alive.
"""

from __future__ import annotations

from habana_tf.cli.output import size
from habana_tf.cli.recipes.contents import Block, MemoryPlan
from habana_tf.cli.recipes.page.markup import Markup, svg, tag, tip

_WIDTH, _HEIGHT = 1120, 300
_LEFT, _BOTTOM, _TOP = 78, 24, 8
_COLOURS = 6


def picture(plan: MemoryPlan) -> Markup:
    """The plan of a launch."""
    total, calls = max(plan.total, 1), max(plan.launches, 1)
    column = (_WIDTH - _LEFT) / calls
    high = _HEIGHT - _TOP - _BOTTOM

    def y(offset: float) -> float:
        return _TOP + high * (1 - offset / total)

    shapes = []
    for k in range(5):
        at = total * k / 4
        shapes.append(tag("line", x1=_LEFT, x2=_WIDTH, y1=y(at), y2=y(at), class_="grid"))
        shapes.append(tag("text", size(at), x=_LEFT - 6, y=y(at) + 4, text_anchor="end", class_="label"))
    for number, block in enumerate(sorted(plan.blocks, key=lambda b: (b.first, b.offset))):
        shapes.append(
            tag(
                "rect",
                tip(_text(block)),
                x=_LEFT + block.first * column,
                y=y(block.offset + block.nbytes),
                width=(block.last - block.first + 1) * column,
                height=max(high * block.nbytes / total, 0.5),
                class_=f"buffer b{number % _COLOURS}",
            )
        )
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


def _text(block: Block) -> str:
    return (
        f"{size(block.nbytes)} at offset {block.offset}, alive from kernel call {block.first} to {block.last}"
    )  # fmt: skip
