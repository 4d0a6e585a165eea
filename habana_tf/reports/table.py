"""Tables of text for any width: cells wrap at blanks, and no name, key or number is ever broken over lines.

Where a table is too wide even with wrapped cells, each row becomes a block of its own:

    op   count   reason                     Qr
    Qr       2   HPU has no such op   ->        count 2
                                                reason: HPU has no such op

Not laid out by rich, which takes half a second for two hundred lines, longer than most commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from habana_tf.files.escaped import escaped
from habana_tf.reports.characters import encodable, width

GAP, NARROW = "   ", "  "
_READABLE = 20
"""Columns of prose are not made narrower than this."""
_INDENT = "    "
_BREAK = re.compile(r"(?<!\d) | (?!(?:B|KiB|MiB|GiB|ns|µs|us|ms|s|min|h)\b)")
"""Blanks where a line may end: none between a number and its unit."""

Paint = Callable[[str, str], str]


class Styled(str):
    """A cell in a style: bold, dim or a colour."""

    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        made = super().__new__(cls, text)
        made.style = style
        return made


class Table:
    """Rows under columns. A column whose name starts with ">" is aligned to the right and never wrapped; without any
    name there is no heading. The title stands above."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
        self.title = title
        self.columns = [column.removeprefix(">") for column in columns]
        self.right = [column.startswith(">") for column in columns]
        self.rows = [[cell if isinstance(cell, str) else str(cell) for cell in row] for row in rows]

    def lines(self, most: int, encoding: str | None = None, paint: Paint | None = None) -> list[str]:
        """The table in `most` columns of an output of that encoding. paint: what colours a text in a style."""
        rows = [[printable(cell, encoding) for cell in row] for row in self.rows]
        above = wrapped(printable(self.title, encoding), most) if self.title else []
        named = any(self.columns)
        if not rows and not named:
            return above
        gap = GAP
        widths = _widths(self.columns, rows, self.right, most, gap)
        if widths is None:
            gap = NARROW
            widths = _widths(self.columns, rows, self.right, most, gap)
        if widths is None:
            return above + _blocks(self, rows, most, paint)
        heading: list[Sequence[str]] = []
        if named:
            rule = encodable("─", encoding)
            heading = [[Styled(c, "bold") for c in self.columns], [Styled(rule * n, "dim") for n in widths]]
        every = [*heading, *rows]
        return above + [_line(line, widths, self.right, gap, paint) for row in every for line in _lines(row, widths)]

    def html(self) -> str:
        """The table as HTML in the page's own style; all text is text."""
        from html import escape  # takes longer to import than a command that prints a table

        cell = "padding:.1em .6em;vertical-align:top;text-align:"
        align = [f' style="{cell}right;white-space:nowrap"' if r else f' style="{cell}left"' for r in self.right]
        above = "text-align:left;font-weight:bold;padding:.6em 0 .2em;caption-side:top"
        title = f'<caption style="{above}">{escape(self.title)}</caption>' if self.title else ""
        head = "".join(f"<th{a}>{escape(c)}</th>" for c, a in zip(self.columns, align, strict=True))
        cells = (
            "".join(f"<td{a}>{escape(printable(c))}</td>" for c, a in zip(row, align, strict=True)) for row in self.rows
        )
        body = "".join(f"<tr>{row}</tr>" for row in cells).replace("\n", "<br>")
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def printable(cell: str, encoding: str | None = None) -> str:
    """Without what would steer a terminal, and what the encoding lacks: names come from files. Lines stay lines."""
    if cell.isascii() and cell.isprintable():
        return cell
    return _like(cell, encodable(escaped(cell, keep="\n"), encoding))


def wrapped(text: str, most: int, indent: str = "") -> list[str]:
    """A text in lines of at most `most` columns, broken at blanks; later lines are indented. A longer word stands by
    itself and sticks out."""
    lines = []
    for part in text.split("\n"):
        bare = part.lstrip(" ")
        line = part[: len(part) - len(bare)]
        empty = True
        for word in _BREAK.split(bare):
            if not empty and width(line) + 1 + width(word) > most:
                lines.append(line)
                line = indent + word
            else:
                line += word if empty else f" {word}"
            empty = False
        lines.append(line)
    return lines


def _longest_word(cell: str) -> int:
    return max((width(word) for word in cell.split()), default=0)


def _widths(heading: list[str], rows: list[list[str]], right: list[bool], most: int, gap: str) -> list[int] | None:
    """Of each column; the widest give way where all together are wider than `most`. None if they cannot."""
    full = [max([width(h), *(_widest_line(row[k]) for row in rows)]) for k, h in enumerate(heading)]
    least = []
    for k, whole in enumerate(full):
        words = max([_longest_word(heading[k]), *(_longest_word(row[k]) for row in rows)])
        if k == len(full) - 1 and words + len(_INDENT) > most:  # it sticks out of a block, too
            words = 0
        least.append(whole if right[k] else min(whole, max(words, _READABLE)))
    over = sum(full) + len(gap) * (len(full) - 1) - most
    while over > 0:
        wide = [k for k in range(len(full)) if full[k] > least[k]]
        if not wide:
            return None
        widest = max(wide, key=full.__getitem__)
        second = max((full[k] for k in wide if k != widest), default=0)
        cut = min(over, max(full[widest] - max(second, least[widest]), 1))
        full[widest] -= cut
        over -= cut
    return full


def _widest_line(cell: str) -> int:
    return width(cell) if "\n" not in cell else max(map(width, cell.split("\n")))


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[Sequence[str]]:
    """A row as one line, or as several where a cell is wider than its column."""
    if "\n" not in "".join(row) and all(width(cell) <= n for cell, n in zip(row, widths, strict=True)):
        return [row]
    parts = [wrapped(cell, n) for cell, n in zip(row, widths, strict=True)]
    lines = [[part[k] if k < len(part) else "" for part in parts] for k in range(max(map(len, parts)))]
    return [[_like(cell, text) for cell, text in zip(row, line, strict=True)] for line in lines]


def _blocks(table: Table, rows: list[list[str]], most: int, paint: Paint | None) -> list[str]:
    """Each row as lines: its first cell, and below it the others with their columns' names, numbers side by side."""
    lines = []
    for row in rows:
        lines += [_painted(line, _like(row[0], line), paint) for line in wrapped(row[0], most, _INDENT) if row[0]]
        named = [(c, cell, right) for c, cell, right in zip(table.columns, row, table.right, strict=True)][1:]
        short = [f"{c} {cell}" for c, cell, right in named if right and cell]
        long = [f"{c}: {cell}" if c else cell for c, cell, right in named if not right and cell]
        for text in [", ".join(short), *long] if short else long:
            inner = text.replace("\n", f"\n{_INDENT * 2}")
            lines += wrapped(_INDENT + inner, most, _INDENT * 2)
    return lines


def _like(cell: str, text: str) -> str:
    return Styled(text, cell.style) if isinstance(cell, Styled) else text


def _painted(text: str, cell: str, paint: Paint | None) -> str:
    return text.replace(cell, paint(cell, cell.style), 1) if paint and isinstance(cell, Styled) and cell else text


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], gap: str, paint: Paint | None) -> str:
    out = []
    for cell, n, to_right in zip(cells, widths, right, strict=True):
        blanks = " " * (n - width(cell))
        out.append(_painted(blanks + cell if to_right else cell + blanks, cell, paint))
    return gap.join(out).rstrip()
