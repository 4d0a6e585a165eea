"""The base of all reports: one line for `repr`, tables for `print`, notebooks and rich, and the figures as JSON.

A report gives its `summary`, what is `shown` (texts and tables) and its data; all else follows. `str()` is as wide as
the terminal, COLUMNS where that is set, or 120 columns; it holds no escape codes and nothing that standard output
cannot encode.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from typing import Any

from habana_tf.reports.characters import columns, encoding_of
from habana_tf.reports.table import Table, printable, wrapped

WIDTH = 120
"""Columns where there is no terminal."""
_INDENT = "  "


class Report(ABC):
    """What is known of something, for people and for programs. Its dataclass is made with `repr=False`."""

    @abstractmethod
    def summary(self) -> str:
        """The report in one short line."""

    @abstractmethod
    def shown(self) -> Sequence[str | Table]:
        """What is shown, one below the other."""

    @abstractmethod
    def to_dict(self) -> Any:
        """The figures as JSON data; sizes are bytes, times seconds where a name does not say otherwise."""

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def text(self, columns: int, encoding: str | None = None) -> str:
        """What `print` shows in so many columns of an output of that encoding."""
        lines: list[str] = []
        parts = self.shown()
        for k, part in enumerate(parts):
            if isinstance(part, Table):
                lines += ["", *part.lines(columns, encoding)] if k else part.lines(columns, encoding)
            else:
                lines += [""] if k and isinstance(parts[k - 1], Table) else []
                lines += wrapped(printable(part, encoding), columns, _INDENT)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text(columns(otherwise=WIDTH), encoding_of())

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__}: {self.summary()}>", encoding_of())

    def _repr_html_(self) -> str:
        """For a notebook: texts and tables in the page's own style."""
        parts = [p.html() if isinstance(p, Table) else f"<p>{escape(printable(p))}</p>" for p in self.shown()]
        return "<div>" + "".join(parts).replace("\n", "<br>") + "</div>"

    def __rich_console__(self, console: Any, options: Any) -> Any:
        """For rich: the same text, as wide as its console."""
        from rich.text import Text

        yield Text(self.text(options.max_width, options.encoding), no_wrap=True, overflow="ignore")
