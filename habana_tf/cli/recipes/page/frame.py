"""The frame of a chart: its margins, and what is drawn by parts of the width and height within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.reports.page.markup import Markup, svg, tag


@dataclass(frozen=True)
class Frame:
    """Sizes in the picture's unit; left, right, top, bottom: of the margins."""

    width: float
    height: float
    left: float
    right: float = 10
    top: float = 12
    bottom: float = 34

    def x(self, part: float) -> float:
        """Where a part of the width is in the picture."""
        return self.left + (self.width - self.left - self.right) * part

    def y(self, part: float) -> float:
        """Where a part of the height is; 0 is below."""
        return self.top + (self.height - self.top - self.bottom) * (1 - part)

    def level(self, text: str, part: float) -> list[Markup]:
        """A horizontal line, with its label on the left."""
        line = tag("line", x1=self.left, x2=self.x(1), y1=self.y(part), y2=self.y(part), class_="grid")
        return [line, tag("text", text, x=self.left - 6, y=self.y(part) + 4, text_anchor="end", class_="label")]

    def below(self, text: str, part: float, down: float, anchor: str = "middle") -> Markup:
        """A label so far below the chart."""
        y = self.height - self.bottom + down
        return tag("text", text, x=self.x(part), y=y, text_anchor=anchor, class_="label")

    def curve(self, points: Sequence[tuple[float, float]], kind: str = "line") -> Markup:
        """A line through parts of width and height; of the kind "area" what is below it."""
        if kind == "area":
            points = [(points[0][0], 0), *points, (points[-1][0], 0)]
        line = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        return tag("polygon" if kind == "area" else "polyline", points=line, class_=kind)

    def drawn(self, *shapes: Markup, label: str) -> Markup:
        """The picture. label: what it shows, for screen readers."""
        return svg(self.width, self.height, *shapes, label=label)
