"""The memory plan of a recipe as a picture: kernel calls from left to right, offsets in the workspace upwards.

A rectangle is a buffer, as wide as the calls it lives through and as high as it is large. The line is what is alive.
"""

from __future__ import annotations

from habana_tf.cli.recipes.contents import MemoryPlan
from habana_tf.cli.recipes.page.frame import Frame
from habana_tf.reports.page.markup import Markup, tag, tip
from habana_tf.reports.units import size

_FRAME = Frame(1120, 300, left=78, right=0, top=8, bottom=24)
_COLOURS = 6


def picture(plan: MemoryPlan) -> Markup:
    total, calls, f = max(plan.total, 1), max(plan.launches, 1), _FRAME
    shapes = [shape for k in range(5) for shape in f.level(size(total * k / 4), k / 4)]
    for number, block in enumerate(sorted(plan.blocks, key=lambda b: (b.first, b.offset))):
        about = f"{size(block.nbytes)} at offset {block.offset}, alive from kernel call {block.first} to {block.last}"
        x, top = f.x(block.first / calls), f.y((block.offset + block.nbytes) / total)
        shapes.append(
            tag("rect", tip(about), x=x, y=top, width=f.x((block.last + 1) / calls) - x,
                height=max(f.y(block.offset / total) - top, 0.5), class_=f"buffer b{number % _COLOURS}")
        )  # fmt: skip
    steps = [((k + end) / calls, n / total) for k, n in enumerate(plan.alive()) for end in (0, 1)]
    shapes.append(f.curve(steps, "alive"))
    shapes += [f.below(str(k), (k + 0.5) / calls, 16) for k in range(0, calls, max(1, calls // 16))]
    return f.drawn(*shapes, label="buffers of the workspace over the kernel calls")
