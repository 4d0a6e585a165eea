"""HTML and SVG as nested calls, and the parts that pages share. Text is escaped: names in recipes come from files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape


class Markup(str):
    """Text that is markup already."""


def tag(name: str, *inside: str | None, **attributes: object) -> Markup:
    """<name attributes>inside</name>. `class_` is class, `_` in names is `-`; None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    body = "".join(part if isinstance(part, Markup) else escape(part) for part in inside if part is not None)
    return Markup(f"<{name}{given}>{body}</{name}>")


def joined(*parts: str) -> Markup:
    """Parts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def svg(width: float, height: float, *inside: str, label: str) -> Markup:
    """A picture that shrinks with the page. label: what it shows, for screen readers."""
    size = {"viewBox": f"0 0 {_text(width)} {_text(height)}", "width": width, "height": height}
    return tag("svg", *inside, role="img", aria_label=label, **size)


def document(title: str, style: str, policy: str, *body: Markup) -> str:
    """A whole page. policy: what the browser lets it load and run (Content-Security-Policy)."""
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width">'),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", *body), lang="en") + "\n"


def tiles(facts: Iterable[tuple[str, str]]) -> Markup:
    """Numbers side by side, each with what it counts."""
    return tag("div", *(tag("div", tag("b", a), tag("span", b), class_="tile") for a, b in facts), class_="tiles")


def figure(caption: str, picture: Markup) -> Markup:
    return tag("figure", tag("figcaption", caption), picture)


def table(columns: Sequence[str], right: Collection[str], rows: Iterable[Markup]) -> Markup:
    """A table. right: the columns that are aligned to the right. rows: `tr` elements."""
    heading = tag("tr", *(tag("th", name, class_="n" if name in right else None) for name in columns))
    return tag("div", tag("table", tag("thead", heading), tag("tbody", *rows)), class_="wide")


def level(text: str, y: float, left: float, right: float) -> list[Markup]:
    """A horizontal line of a chart, with its label on the left."""
    line = tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
    return [line, tag("text", text, x=left - 6, y=y + 4, text_anchor="end", class_="label")]


def tip(text: str) -> Markup:
    """What appears when the pointer rests on a shape: put it inside."""
    return tag("title", text)


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
