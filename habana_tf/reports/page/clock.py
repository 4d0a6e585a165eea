"""Spans of time as rows of a page, drawn by its one script, which the browser runs because it knows the digest."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from habana_tf.reports.page.markup import Markup, joined, tag

_BESIDE = Path(__file__).parent
_SCRIPT = (_BESIDE / "clock.js").read_text("utf-8")
STYLE = (_BESIDE / "clock.css").read_text("utf-8")
_DIGEST = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'"
MOST_SPANS = 60_000
"""Of a clock: the first ones are drawn; a page with more is slow to open."""
HINT = "Drag to move, Ctrl and wheel to zoom, double click on a span to see it large."
_BUTTONS = (("whole", "all", "show everything"), ("in", "+", "zoom in"), ("out", "-", "zoom out"))


def legend(kinds: Sequence[tuple[str, str]]) -> Markup:
    """The colours of kinds of spans, with what each is."""
    marks = (joined(tag("span", style=f"background:var(--k-{kind})"), name) for kind, name in kinds)
    return tag("p", *marks, class_="quiet key")


def clock(number: int, caption: str, first: str = "") -> Markup:
    """The place of a clock. first: the label of the button that shows the part that the clock's "show" says."""
    given = [("launch", first, f"show {first}")] if first else []
    buttons = [tag("button", text, type="button", value=value, aria_label=label)
               for value, text, label in (*given, *_BUTTONS)]  # fmt: skip
    return tag(
        "figure",
        tag("figcaption", caption),
        tag("div", *buttons, class_="controls"),
        tag("canvas", tabindex=0, role="img", aria_label=f"spans of {caption}"),
        tag("div", class_="note", aria_live="polite"),
        id=f"clock{number}",
    )


def embedded(kinds: Sequence[str], names: Sequence[str], clocks: Sequence[dict[str, Any]]) -> list[Markup]:
    """The spans and the script that draws them: the end of a page.

    A clock is {"title", "rows": [{"name", "spans"}], "cut", "show"}: cut is how many spans are left out, show the part
    that is seen first, in microseconds, empty for all. A span is [start, length, kind, name, depth] in microseconds and
    numbers of kinds and names; a sixth number is the same for spans of several rows that are one thing.
    """
    text = json.dumps({"kinds": kinds, "names": names, "clocks": clocks}, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")  # nothing ends the element
    data = Markup(f'<script type="application/json" id="spans">{safe}</script>')
    return [data, tag("script", Markup(_SCRIPT))]
