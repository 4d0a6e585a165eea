"""HTML and SVG as nested calls, and the parts that pages share. Text is escaped: names in recipes come from files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("style.css").read_text("utf-8")
"""Of all pages."""


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


def table(
    columns: Sequence[str], right: Collection[str], rows: Iterable[Sequence[str]], classes: Mapping[str, str] = {},
    tall: bool = False,
) -> Markup:  # fmt: skip
    """A table that scrolls where it is wide. right: columns that are aligned to the right; classes: of the cells of
    others. A row with fewer cells is of something wrong, and its last cell takes the rest. tall: it scrolls down, too.
    """
    kinds = ["n" if name in right else classes.get(name) for name in columns]
    heading = tag("tr", *(tag("th", name, class_="n" if name in right else None) for name in columns))
    lines = []
    for row in rows:
        wide = len(columns) - len(row) + 1
        cells = [tag("td", text, class_=kind) for text, kind in zip(row, kinds, strict=False)]
        if wide > 1:
            cells[-1] = tag("td", row[-1], colspan=wide)
        lines.append(tag("tr", *cells, class_="bad" if wide > 1 else None))
    made = tag("table", tag("thead", heading), tag("tbody", *lines))
    return tag("div", made, class_="wide tall" if tall else "wide")


def tip(text: str) -> Markup:
    """What appears when the pointer rests on a shape: put it inside."""
    return tag("title", text)


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
