"""Tables fit where words allow it, break no word, lose nothing, and are aligned."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.reports.characters import width
from habana_tf.reports.table import Styled, Table, wrapped

WORDS = st.text(st.sampled_from("abcxyz0_/:,.[]"), min_size=1, max_size=45)
CELLS = st.lists(WORDS, max_size=8).map(" ".join)
TABLES = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([">number", "name", "reason for it"]), min_size=n, max_size=n),
        st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=5),
    )
)


@given(TABLES, st.sampled_from([60, 80, 140, 200]))
def test_no_word_is_broken_and_only_a_word_sticks_out(table: tuple[list[str], list[list[str]]], most: int) -> None:
    columns, rows = table
    lines = Table(columns, rows).lines(most)
    printed = "\n".join(lines).replace("\n", " ").split(" ")
    words = [word for row in rows for cell in row for word in cell.split()]
    for word in words:
        assert word in printed or any(p.strip(",:") == word.strip(",:") for p in printed), word
    for line in lines:
        longest = max(map(len, line.split()), default=0)
        assert width(line) <= most or longest > most // 2 - 16, line


@given(st.lists(WORDS, max_size=30), st.integers(10, 200))
def test_texts_wrap_at_blanks(words: list[str], most: int) -> None:
    lines = wrapped(" ".join(words), most, "  ")
    assert " ".join(lines).split() == words
    assert all(len(line) <= most or len(line.split()) == 1 for line in lines)


def test_numbers_line_up_on_the_right_and_prose_wraps_first() -> None:
    table = Table(["name", ">count", "why"], [["a" * 20, 7, "word " * 20], ["b", 12345, "short"]])
    lines = table.lines(70)
    assert max(map(len, lines)) <= 70 and len(lines) > 4
    ends = {line.index(n) + len(n) for line in lines for n in ("7", "12345") if n in line}
    assert len(ends) == 1


def test_what_does_not_fit_becomes_blocks_with_the_columns_names() -> None:
    table = Table(["op", ">count", ">time", "reason"], [["Op" * 20, 2, "3 ms", "no " * 30], ["X", 1, "", ""]])
    lines = table.lines(60)
    assert lines[0] == "Op" * 20
    assert lines[1] == "    count 2, time 3 ms"
    assert lines[2].startswith("    reason: no no") and lines[-2:] == ["X", "    count 1"]
    assert max(map(len, lines)) <= 60


def test_replaced_characters_leave_columns_aligned() -> None:
    (heading, rule, one, two) = Table([">t", "n"], [["3 µs", "größe"], ["10 s", "x"]]).lines(80, "ascii")
    assert set(rule) <= {"-", " "} and one.endswith("gr\\xf6\\xdfe")
    assert one.index("g") == two.index("x") == heading.index("n")


def test_styles_do_not_change_the_layout() -> None:
    rows = [[Styled("red", "red"), "text " * 20]]
    plain = Table(["a", "b"], rows).lines(60)
    painted = Table(["a", "b"], rows).lines(60, paint=lambda text, style: f"\x1b[31m{text}\x1b[0m")
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in painted] == plain and "\x1b" not in "".join(plain)


@given(st.text())
def test_in_a_page_text_is_text(text: str) -> None:
    page = Table(["a"], [[text]], text).html()
    assert not re.search(r"<(?!/?(table|thead|tbody|tr|td|th|caption|br)\b)", page)
    if text.isprintable():
        assert html.unescape(page).count(text) >= 2


@pytest.mark.parametrize("most", [60, 200])
def test_a_table_without_rows_is_its_heading(most: int) -> None:
    assert Table(["a", "b"], [], "title").lines(most)[0] == "title"
    assert Table(["", ""], []).lines(most) == []
