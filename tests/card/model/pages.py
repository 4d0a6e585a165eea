"""Puts tables into the pages of docs/."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def put(tables: dict[str, list[str]]) -> None:
    """Tables into the page, each between its marks."""
    page = DOCS / "fidelity.md"
    text = page.read_text("utf-8")
    for name, lines in tables.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, mark, after = rest.partition(f"<!-- end of {name} -->")
        assert mark, f"{page} has no marks of {name}"
        text = f"{before}<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- end of {name} -->{after}"
    page.write_text(text, "utf-8")
