"""The page of all reports shows what is printed now."""

from __future__ import annotations

import pytest

from tests.documentation import printed

pytestmark = pytest.mark.skipif(not printed.PAGE.exists(), reason="not in a source tree")


def test_the_page_has_the_program_and_every_report_within_its_width() -> None:
    text = printed.PAGE.read_text()
    assert printed.PROGRAM in text
    for name, blocks in printed.shown(text).items():
        assert name.partition("(")[0] in text
        for width, block in blocks.items():
            assert max(map(len, block.splitlines())) <= width


def test_words_are_what_no_machine_changes() -> None:
    here, there = (
        "took   9.5 MiB\n────\ncluster_00aa11bb22cc   <0.01 s",
        "took   10 B\n──\ncluster_ffffffffffff   2 min",
    )
    assert printed.words(here) == printed.words(there) != printed.words("took   9.5 MiB\nnode   2 s")


@pytest.mark.rest
def test_the_program_prints_the_same_today() -> None:
    page = printed.shown(printed.PAGE.read_text())
    for name, blocks in printed.printed().items():
        for width, block in blocks.items():
            assert printed.words(block) == printed.words(page[name][width]), f"{name}: make docs-reports writes it anew"
