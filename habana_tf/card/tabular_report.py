"""What reports that consist of tables have in common: `print`, notebooks, rich and JSON."""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from html import escape
from typing import Any

WIDTH = 120


class TabularReport:
    """A report that rich draws. A subclass gives its `tables` and its data."""

    @abstractmethod
    def tables(self) -> Any:
        """What rich draws."""

    @abstractmethod
    def to_dict(self) -> Any:
        """The report as JSON data."""

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __rich__(self) -> Any:
        return self.tables()

    def __str__(self) -> str:
        """As `print` shows it, without colours."""
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=WIDTH, color_system=None, force_jupyter=False).print(self.tables())
        return out.getvalue().rstrip()

    def _repr_html_(self) -> str:
        """For a notebook: the tables in the page's own colours."""
        return f'<pre style="line-height:1.1;overflow-x:auto">{escape(str(self))}</pre>'
