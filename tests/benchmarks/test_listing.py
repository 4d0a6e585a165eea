"""The benchmark of looking into a cache runs, and what it looks into is a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from habana_tf import cache
from tests.benchmarks import listing


def test_a_line_per_action(capsys: pytest.CaptureFixture[str]) -> None:
    listing.main(["--entries", "5", "--runs", "1", "--actions", "list", "verify"])
    lines = capsys.readouterr().out.splitlines()
    names = ["python -c pass", "habana-tf recipes list", "habana-tf recipes verify"]
    assert [line.partition(":")[0] for line in lines] == names


def test_its_entries_are_whole(tmp_path: Path) -> None:
    listing.fill(str(tmp_path), 9)
    found = cache.verify(str(tmp_path))
    assert (found.good, found.problems) == (9, ())
