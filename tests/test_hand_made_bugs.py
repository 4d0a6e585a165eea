"""The bugs that can be made by hand fit the sources as they are."""

from __future__ import annotations

import pytest

from tests.hand_made_bugs import BUGS, ROOT, Bug


@pytest.mark.parametrize("bug", BUGS, ids=[f"{k}" for k in range(len(BUGS))])
def test_there_is_one_place_for_it(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text().count(bug.old) == 1 and bug.old != bug.new
    assert all((ROOT / name).exists() for name in bug.tests.split())
