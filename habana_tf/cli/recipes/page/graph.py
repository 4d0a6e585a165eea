"""The fused graph of a recipe as a picture: a row per kernel in call order, with the ops it came from.

Arcs on the left join a kernel to those that read what it leaves in the workspace or in an output. The bars on the right
are its floating-point operations and its bytes, against those of the kernel that has most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.cli.recipes.contents import ClusterOp
from habana_tf.reports.page.markup import Markup, svg, tag, tip
from habana_tf.reports.units import amount, brief, counted, operations, size

_WIDTH = 1120
_ROW, _BOX = 30, 24
_ARCS, _BOX_AT, _OPS_AT, _SHARE_AT = 120, 124, 404, 960
_LETTER = 5.9
"""Width of a letter of the labels, roughly, in the picture's unit."""
_MOST_ROWS = 400


def picture(kernels: Sequence[dict[str, Any]], ops: Sequence[ClusterOp], edges: Sequence[tuple[int, int]]) -> Markup:
    """edges: (writer, reader), kernels by number."""
    shown = kernels[:_MOST_ROWS]
    shapes = [_arc(a, b) for a, b in edges if b < len(shown)]
    totals = {what: _sum(kernels, what) for what in ("flops", "bytes")}
    most = {what: max((k[what] for k in kernels if isinstance(k[what], int)), default=0) for what in totals}
    for number, kernel in enumerate(shown):
        shapes += _row(number, kernel, ops, totals, most)
    height = len(shown) * _ROW + 8
    if len(kernels) > len(shown):
        more = f"and {len(kernels) - len(shown)} more kernels"
        shapes.append(tag("text", more, x=_BOX_AT, y=height + 8, class_="label"))
        height += 20
    return svg(_WIDTH, height, *shapes, label="kernels in call order with the ops each one came from")


def _y(number: int) -> float:
    return 4 + number * _ROW + _BOX / 2


def _arc(a: int, b: int) -> Markup:
    """From the writer down to the reader; the further, the wider."""
    bulge = min(12 + 9 * (b - a) ** 0.65, _ARCS)
    left = _BOX_AT - bulge * 1.3
    path = f"M{_BOX_AT},{_y(a) + 4} C{left:.1f},{_y(a) + 4} {left:.1f},{_y(b) - 4} {_BOX_AT},{_y(b) - 4}"
    return tag("path", tip(f"kernel {b} reads what kernel {a} wrote"), d=path, class_="arc")


def _row(
    number: int, kernel: dict[str, Any], ops: Sequence[ClusterOp], totals: dict[str, int | None], most: dict[str, int]
) -> list[Markup]:
    top = 4 + number * _ROW
    engine = kernel["engine"]
    shape = "[" + ",".join(map(str, kernel["shape"])) + "]"
    fused = counted(kernel["fused"])
    about = (
        f"kernel {number} on {engine}: {kernel['does']} over {shape}"
        + (f", fused: {fused}" if fused else "")
        + f"; {amount(kernel['flops'], operations)} floating-point operations, {amount(kernel['bytes'], size)}"
        + ("" if kernel["at_least_seconds"] is None else f"; at least {brief(kernel['at_least_seconds'])} on the card")
    )
    width = _OPS_AT - _BOX_AT - 12
    text = _cut(f"{engine}  {kernel['does']} {shape}", width - 40)
    shapes = [
        tag("rect", tip(about), x=_BOX_AT, y=top, width=width, height=_BOX, rx=4, class_=f"kernel {engine}"),
        tag("text", str(number), x=_BOX_AT + 26, y=top + 16, text_anchor="end", class_="number"),
        tag("text", text, x=_BOX_AT + 34, y=top + 16, class_="kernel-text"),
    ]
    return [*shapes, *_pills([ops[k] for k in kernel["ops"]], top), *_shares(kernel, totals, most, top)]


def _pills(ops: Sequence[ClusterOp], top: float) -> list[Markup]:
    """The ops of a kernel side by side, as many as there is room for."""
    shapes: list[Markup] = []
    x = float(_OPS_AT)
    for k, op in enumerate(ops):
        width = len(op.type) * _LETTER + 14
        rest = len(ops) - k
        if x + width > _SHARE_AT - (46 if rest > 1 else 10):
            names = "\n".join(f"{o.type} {o.name}" for o in ops[k:])
            shapes.append(tag("text", tip(names), f"+ {rest}", x=x + 2, y=top + 16, class_="label"))
            break
        pill = {"x": x, "y": top + 2, "width": width, "height": _BOX - 4, "rx": 9}
        shapes.append(tag("rect", tip(f"{op.type} {op.name}"), class_="op", **pill))
        shapes.append(tag("text", op.type, x=x + 7, y=top + 16, class_="op-text"))
        x += width + 5
    return shapes


def _shares(kernel: dict[str, Any], totals: dict[str, int | None], most: dict[str, int], top: float) -> list[Markup]:
    """Two bars: operations and bytes; `most` is as wide as there is room."""
    shapes = []
    for k, (what, total) in enumerate(totals.items()):
        value = kernel[what]
        if not total or not isinstance(value, int):
            continue
        width = (_WIDTH - _SHARE_AT) * value / most[what]
        text = f"{amount(value, operations if what == 'flops' else size)}: {100 * value / total:.1f} % of all {what}"
        shapes.append(
            tag("rect", tip(text), x=_SHARE_AT, y=top + 3 + 10 * k, width=max(width, 0.5), height=8, class_=what)
        )
    return shapes


def _sum(kernels: Sequence[dict[str, Any]], what: str) -> int | None:
    """The total over all kernels; None for a recipe over open sizes."""
    values = [kernel[what] for kernel in kernels]
    return sum(values) if all(isinstance(value, int) for value in values) else None


def _cut(text: str, width: float) -> str:
    letters = int(width / _LETTER)
    return text if len(text) <= letters else text[: letters - 1] + "…"
