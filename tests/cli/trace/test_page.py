"""The timeline as a page: it loads nothing, shows every part, and a browser draws it at any width."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import xml.etree.ElementTree as tree
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from habana_tf.cli.trace.page import spans
from habana_tf.cli.trace.page.page import page
from habana_tf.hardware.chips import chips
from tests.card.timeline.parts import part
from tests.cli.recipes.browser import Browser
from tests.cli.recipes.conftest import browser as browser

EVIL = "</script><script>document.title='run'</script>"


@pytest.fixture
def hostile() -> list[dict[str, Any]]:
    """Two ranks; of one the names are of no good will."""
    made = [copy.deepcopy(part(rank, 2)) for rank in (0, 1)]
    made[0]["command"] = made[0]["programs"]["7"]["name"] = made[0]["programs"]["7"]["kernels"][0]["name"] = EVIL
    made[0]["programs"]["7"]["kernels"][0]["ops"] = [f"MatMul {EVIL}"]
    return made


def embedded(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="spans">(.*?)</script>', text)
    return json.loads(found)


def test_nothing_is_loaded_and_only_our_script_runs(hostile: list[dict[str, Any]]) -> None:
    text = page(hostile)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1 and len(re.findall("<script", text)) == 2  # the other is data
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert not re.search(r"<img|<link|<iframe|\bsrc=\"|url\(|@import|https?://", text.replace(scripts[0], ""))
    assert EVIL in unescape(text) and EVIL in embedded(text)["names"], "it is shown, as text"


def test_every_span_is_there(hostile: list[dict[str, Any]]) -> None:
    found = embedded(page(hostile))
    host, card = found["clocks"]
    assert [row["name"] for row in host["rows"]] == ["rank 0: python 900", "rank 1: python 901"]
    kinds = [[found["kinds"][s[2]] for s in row["spans"]] for row in host["rows"]]
    assert kinds == [["compile", "launch", "kernel", "kernel", "copy", "launch"]] * 2
    assert [s[4] for s in host["rows"][0]["spans"]] == [0, 0, 1, 1, 0, 0]  # calls stand in their launch
    rows = {row["name"]: [s[:2] for s in row["spans"]] for row in card["rows"] if row["name"].startswith("rank 0")}
    assert rows["rank 0: MME"] == [[0, 2], [3, 2]] and rows["rank 0: TPC"] == [[2, 1], [5, 1]]
    assert rows["rank 0: bundles"] == [[0, 3], [3, 3]] and rows["rank 0: DMA to the card"] == [[0, 0.128]]
    assert host["show"] == [2800, 4200]


def test_a_long_run_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch, browser: Browser, tmp_path: Path) -> None:
    monkeypatch.setattr(spans, "MOST_SPANS", 4)
    path = tmp_path / "page.html"
    path.write_text(page([part()]))
    assert [clock["cut"] for clock in embedded(path.read_text())["clocks"]] == [2, 5]
    document, _ = browser.document(path)
    assert document.count("2 later spans are left out") == document.count("5 later spans are left out") == 1


@pytest.mark.parametrize("name", [each.name for each in chips()])
def test_no_dot_is_above_the_roof(name: str) -> None:
    """Dots against the published peaks, read off the picture's own scale."""
    chip = next(each for each in chips() if each.name == name)
    made = {**part(), "chip": name}
    for unit in made["programs"]["7"]["card"]["intervals"]:
        assert unit["seconds"] >= unit["nbytes"] / chip.published_hbm_bandwidth
    text = page([made])
    pictures = [tree.fromstring(found) for found in re.findall(r"<svg .*?</svg>", text, re.DOTALL)]
    (roof,) = (p for p in pictures if "operations per second" in p.attrib["aria-label"])
    lines = [e.attrib["points"].split() for e in roof.iter() if e.tag == "polyline"]
    (start, knee, end) = [tuple(map(float, p.split(","))) for p in lines[0]]
    dots = [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in roof.iter() if e.tag == "circle"]
    assert len(dots) == 2 and len(lines) == 1 + (chip.published_tpc_flops is not None)
    for x, y in dots:
        slope = (knee[1] - start[1]) / (knee[0] - start[0])
        assert start[0] - 0.2 <= x <= end[0] and y >= max(start[1] + slope * (x - start[0]), knee[1]) - 0.2


def test_layers_are_as_wide_as_their_time() -> None:
    text = page([part()])
    found = [dict(re.findall(r'title="([^":]*): [^"]*?, ([0-9.]+) %"', each)) for each in text.split("<figure>")]
    card, host = [each for each in found if each]
    assert card["MatMul"] == "66.7" and card["Relu"] == "33.3" and card["dense"] == card["net"] == "100.0"
    assert host["MatMul"] == "60.0" and host["Relu"] == "40.0" and host["dense"] == host["net"] == "100.0"


def test_memories_are_drawn_to_the_bytes_in_use() -> None:
    """The highest point of each curve is where most is in use, at its moment."""
    pictures = [tree.fromstring(found) for found in re.findall(r"<svg .*?</svg>", page([part()]), re.DOTALL)]
    for memory, at, most in (("HBM", 2 / 3, 20000), ("SRAM", 0, 5120)):
        (found,) = (p for p in pictures if f"of {memory} in use" in p.attrib["aria-label"])
        (line,) = (e.attrib["points"].split() for e in found.iter() if e.tag == "polyline")
        (dot,) = (e for e in found.iter() if e.tag == "circle")
        xs, ys = zip(*(map(float, p.split(",")) for p in line), strict=True)
        assert float(dot.attrib["cy"]) == pytest.approx(min(ys), abs=0.1)
        assert float(dot.attrib["cx"]) == pytest.approx(xs[0] + at * (xs[-1] - xs[0]), abs=0.1)
        assert f"{most / 1024:.3g}" in "".join(found.itertext()), "the axis ends there"


def test_what_is_not_predicted_is_said() -> None:
    made = part()
    made["programs"]["7"]["card"] |= {"seconds": 0.0, "why": "its cluster cannot be lowered: Odd has no row",
                                      "intervals": [], "bundles": [], "use": [], "results": []}  # fmt: skip
    assert page([made]).count("its cluster cannot be lowered: Odd has no row") == 2
    made["programs"]["7"]["card"] = None
    assert "nothing is known of it" in page([made])


def test_nothing_recorded_is_a_page_too() -> None:
    empty = {**part(), "threads": [], "programs": {}, "marks": []}
    assert "<h2>When what ran</h2>" in page([empty])


@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_draws_it(width: int, browser: Browser, hostile: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(hostile))
    document, complaints = browser.document(path)
    assert not complaints and "<title>Timeline of" in document and "<title>run</title>" not in document
    assert re.findall(r'data-drawn="(\d+)"', document) == ["2", "10"]  # rows of both clocks
    assert len(browser.screenshot(path, tmp_path / "page.png", width, 1200)) > 10_000
