"""A job of many cards as a page: it loads nothing, joins what ranks do together, and says who waits for whom."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from habana_tf.card.prediction.ranks import Event, simulated
from habana_tf.card.prediction.waits import RankTime
from habana_tf.dry_run.ranks import RanksPrediction
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from habana_tf.reports.page import clock
from tests.card.prediction.test_ranks import call, launch
from tests.cli.recipes.browser import Browser
from tests.cli.recipes.conftest import browser as browser

EVIL = "</script><script>document.title='run'</script>"
MILLI = 1e-3


def predicted() -> RanksPrediction:
    """Rank 0 waits 4 ms for rank 1, then both for the network, 1 ms; then rank 1 sends."""
    ranks: dict[int, list[Event]] = {
        0: [launch(MILLI), call("all_reduce", 7, line=EVIL), launch(MILLI, 7), call("recv", 8, sends=-2, ranks=(1, 0))],
        1: [launch(5 * MILLI), call("all_reduce", 7, line=EVIL), launch(MILLI, 7), call("send", ranks=(1, 0))],
    }
    times = tuple(RankTime(rank, MILLI, MILLI, 0.0, 0.0, 2**30, {"train.py:7": 3}) for rank in ranks)
    known = chip("gaudi2")
    return RanksPrediction(known, box(known, None), 2, times, tuple(simulated(ranks, lambda _: MILLI)), 0.0)


def embedded(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="spans">(.*?)</script>', text)
    return json.loads(found)


def test_waits_stand_in_a_ranks_row_and_collectives_are_joined() -> None:
    text = predicted().html()
    found = embedded(text)
    rows = [[[found["names"][s[3]], *s[:2], *s[4:]] for s in row["spans"]] for row in found["clocks"][0]["rows"]]
    met = f"all_reduce of 4 bytes in group of all (0, 1) at {EVIL}"
    assert rows[0] == [
        ["program", 0, 1000, 0], [f"waits for rank 1: {met}", 1000, 4000, 0],
        [f"waits for the network: {met}", 5000, 1000, 0],
        [met, 5000, 1000, 1, 0], ["program", 6000, 1000, 0],
        ["recv of 4 bytes in group of all (1, 0) at an unknown line", 7000, 1000, 2, 1],
    ]  # fmt: skip
    assert rows[1][2] == [met, 5000, 1000, 1, 0] and rows[1][-1][1:] == [7000, 1000, 1, 1]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text.partition("<h2>Waits")[2])
    assert [unescape(cell) for cell in cells[:6]] == [
        "0", "rank 1", "all_reduce of 4 bytes in group of all (0, 1)", EVIL, "1", "4 ms",
    ]  # fmt: skip


def test_a_long_step_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "MOST_SPANS", 2)
    assert embedded(predicted().html())["clocks"][0]["cut"] == 6


def test_a_browser_draws_it(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(predicted().html())
    document, complaints = browser.document(path)
    assert not complaints and "<title>HL-225, 2 cards" in document and 'data-drawn="2"' in document
    assert len(browser.screenshot(path, tmp_path / "page.png", 1200, 1000)) > 10_000
