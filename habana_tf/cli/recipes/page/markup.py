"""HTML and SVG as nested calls. Whatever is text is escaped: names in recipes come from files."""

from __future__ import annotations

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
    """A picture that shrinks with the page. label: what it shows, for who cannot see it."""
    size = {"viewBox": f"0 0 {_text(width)} {_text(height)}", "width": width, "height": height}
    return tag("svg", *inside, role="img", aria_label=label, **size)


def tip(text: str) -> Markup:
    """What appears when the pointer rests on a shape: put it inside."""
    return tag("title", text)


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
