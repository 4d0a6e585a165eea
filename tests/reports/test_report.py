"""All reports are one family: printed at every width, in ASCII, in a notebook, by rich and as JSON."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

import habana_tf
from habana_tf.reports.report import Report
from tests.reports.samples import NAMES, every

REPORTS = [pytest.param(report, id=type(report).__name__) for report in every()]


def _kinds(base: type) -> set[type]:
    return {
        kind for sub in base.__subclasses__() if sub.__module__.startswith("habana_tf.") for kind in (sub, *_kinds(sub))
    }


def test_no_kind_of_report_is_left_out() -> None:
    asked = [getattr(habana_tf, name) for name in habana_tf.__all__ if name.endswith("_report") or name in
             ("explain", "predict", "compare", "plan")]  # fmt: skip
    assert _kinds(Report) == {type(report) for report in every()}
    assert len(asked) + 2 == len(_kinds(Report)), "each has a function; those of plan and of placements have two kinds"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("columns", [60, 80, 140, 200])
def test_printed_at_every_width(report: Report, columns: int) -> None:
    text = report.text(columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "\x1b" not in text and text == text.rstrip()
    for name in NAMES:
        if name in report.text(1000):
            assert name in text, f"{name} is broken or cut off"


@pytest.mark.parametrize("report", REPORTS)
def test_ascii(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print(report)
    print(repr(report)[:80], flush=True)
    shown = raw.getvalue().decode("ascii")
    assert max(map(len, shown.splitlines())) <= 80 and "?" not in shown


@pytest.mark.parametrize("report", REPORTS)
def test_repr_is_one_short_line(report: Report) -> None:
    assert repr(report).startswith(f"<{type(report).__name__}: ") and "\n" not in repr(report)
    assert len(repr(report)) <= 160


@pytest.mark.parametrize("report", REPORTS)
def test_json_is_data_and_stable(report: Report) -> None:
    assert json.loads(report.to_json()) == json.loads(json.dumps(report.to_dict()))
    again = next(r for r in every() if type(r) is type(report))
    assert again.to_json() == report.to_json()


@pytest.mark.parametrize("report", REPORTS)
def test_in_a_notebook_all_tables_are_tables(report: Report) -> None:
    page = report._repr_html_()
    assert page.count("<tr>") >= page.count("<table>") >= 1 or len(report.text(200).splitlines()) == 1
    assert not re.search(r"<(?!/?(div|p|table|thead|tbody|tr|td|th|caption|br)\b)", page)


def test_nothing_is_taken_for_html() -> None:
    class One(Report):
        def summary(self) -> str:
            return "<b>"

        def shown(self) -> list[str]:
            return ["<b>one [bold]x[/bold]"]

        def to_dict(self) -> dict[str, int]:
            return {"name": 1}

    assert "<b>" not in One()._repr_html_() and "&lt;b&gt;one" in One()._repr_html_()
    assert str(One()) == "<b>one [bold]x[/bold]" and repr(One()) == "<One: <b>>"


@pytest.mark.parametrize("report", REPORTS)
def test_rich_draws_the_same(report: Report) -> None:
    console = Console(width=100, color_system=None, file=io.StringIO(), force_jupyter=False)
    with console.capture() as drawn:
        console.print(report)
    lines = [line.rstrip() for line in drawn.get().rstrip().splitlines()]
    assert lines == report.text(100).splitlines()
