"""The parts of long tests that CI takes day by day are all of them together."""

from __future__ import annotations

import pytest

from tests import conftest, effort


def test_the_parts_together_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [*"abcdefg"]
    assert effort.part_of(cases, "SOME_PART") == cases
    found = []
    for k in range(3):
        monkeypatch.setenv("SOME_PART", f"{k}/3")
        found += effort.part_of(cases, "SOME_PART")
    assert sorted(found) == cases and found[:3] == ["a", "d", "g"]
    monkeypatch.setenv("SOME_PART", "5/4")  # of the fifth day: the second quarter
    assert effort.part_of(cases, "SOME_PART") == ["b", "f"]


def test_what_comes_first_is_there() -> None:
    assert not [name for name in conftest.FIRST if not any(conftest.HERE.rglob(name))]
