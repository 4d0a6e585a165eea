"""Reports of tables: printed, in notebooks, as JSON."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from habana_tf.card.tabular_report import TabularReport


class Report(TabularReport):
    def tables(self) -> Any:
        from rich.table import Table

        table = Table("name")
        table.add_row("<b>[bold]one[/bold]")
        return table

    def to_dict(self) -> Any:
        return {"name": 1}


def test_printed_without_colours() -> None:
    assert "<b>one" in str(Report()) and "\x1b" not in str(Report())


def test_rich_draws_the_same() -> None:
    console = Console(width=120, color_system=None)
    with console.capture() as drawn:
        console.print(Report())
    assert drawn.get().rstrip() == str(Report())


def test_in_a_notebook_nothing_is_taken_for_html() -> None:
    shown = Report()._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;one" in shown


def test_as_json() -> None:
    assert json.loads(Report().to_json()) == {"name": 1}
