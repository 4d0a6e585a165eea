"""`recipes report` is one page that loads nothing, shows what the cache says, and is understood by a browser."""

from __future__ import annotations

import json
import re
import struct
import xml.etree.ElementTree as tree
import zlib
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import RecipeCache
from tests.cli.recipes.browser import Browser
from tests.cli.recipes.conftest import OUT, Keys

EVIL = '</svg><script>document.title="run"</script>'


@pytest.fixture
def page(cached: Keys, run: Callable[..., Any], tmp_path: Path) -> Path:
    """The report of a cache in which one recipe has a hostile name."""
    cache = RecipeCache()
    described = [{"dtype": EVIL, "shape": [1]}]
    header = {"ops": {EVIL: 2}, "inputs": described, "outputs": described, "scopes": {EVIL: 1}}
    cache.store(Key.of([("cluster", "evil")]), "evil", header, {"object": b"?"}, 0.5)
    cache.close()
    result = run("recipes", "report", "--html", str(tmp_path / "report.html"))
    assert result.code == 0 and "6 recipes, 3 of them drawn" in result.out
    return tmp_path / "report.html"


def _pictures(text: str) -> dict[str, list[Any]]:
    """The page's SVGs by their labels, parsed."""
    found: dict[str, list[Any]] = {}
    for picture in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
        element = tree.fromstring(picture)
        found.setdefault(element.attrib["aria-label"], []).append(element)
    return found


def _of_class(picture: Any, name: str) -> list[Any]:
    return [e for e in picture.iter() if name in e.attrib.get("class", "").split()]


def test_nothing_is_loaded_and_nothing_runs(page: Path) -> None:
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"<script|<img|<link|<iframe|\bsrc=\"|url\(|@import|https?://", text.replace("&lt;", ""))
    assert EVIL in unescape(text), "it is shown, as text"


def test_every_kernel_and_op_is_in_the_graph(page: Path, cached: Keys, run: Callable[..., Any]) -> None:
    pictures = _pictures(page.read_text())["kernels in call order with the ops each one came from"]
    assert len(pictures) == 3
    shown = [json.loads(run("recipes", "show", cached[name], "--json").out)["kernels"] for name in ("64", "5", "any")]
    assert sorted(len(_of_class(p, "kernel")) for p in pictures) == sorted(map(len, shown))
    for picture in pictures:
        assert {e.text for e in _of_class(picture, "op-text")} == {"MatMul", "Exp", "Softmax"}
        kernels = len(_of_class(picture, "kernel"))
        assert len(_of_class(picture, "MME")) == 1
        assert len(_of_class(picture, "arc")) >= kernels - 1, "all work on what the first one made"


def test_buffers_that_live_at_once_do_not_overlap(page: Path) -> None:
    pictures = _pictures(page.read_text())["buffers of the workspace over the kernel calls"]
    assert len(pictures) == 3
    for picture in pictures:
        boxes = [[float(e.attrib[k]) for k in ("x", "y", "width", "height")] for e in _of_class(picture, "buffer")]
        assert boxes
        for k, (x, y, w, h) in enumerate(boxes):
            assert x >= 0 and x + w <= 1120.1 and y >= 0 and y + h <= 300.1
            for x2, y2, w2, h2 in boxes[:k]:
                apart = x2 + w2 <= x + 0.1 or x + w <= x2 + 0.1 or y2 + h2 <= y + 0.6 or y + h <= y2 + 0.6
                assert apart


def test_a_recipe_for_a_range_is_drawn_for_sizes_that_were_met(page: Path) -> None:
    text = page.read_text()
    assert "Drawn for s0 = 5: another recipe of this cluster was compiled for that" in text
    assert str(OUT) in text


def test_history_is_drawn(page: Path) -> None:
    pictures = _pictures(page.read_text())
    (history,) = pictures["hits and misses of each run"]
    tips = [unescape(e.find("title").text) for e in _of_class(history, "hit")]
    assert any("0 hits, 5 misses" in t for t in tips) and any("5 hits, 0 misses" in t for t in tips)
    (times,) = pictures["compile time of each recipe in order of creation"]
    heights = [float(e.attrib["height"]) for e in _of_class(times, "spent")]
    assert heights[1] == pytest.approx(2 * heights[2], abs=0.1), "two seconds and one"
    (growth,) = pictures["size of the recipes over time"]
    assert len(_of_class(growth, "dot")) == 6


def test_damage_is_listed(cached: Keys, run: Callable[..., Any], tmp_path: Path) -> None:
    path = next(cached.path.rglob("step-*.recipe"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert "2 of them drawn" in run("recipes", "report", "--html", str(tmp_path / "r.html")).out
    assert str(path) in (tmp_path / "r.html").read_text()


def test_an_empty_cache_and_a_place_that_is_not_there(run: Callable[..., Any], tmp_path: Path) -> None:
    data = json.loads(run("recipes", "report", "--html", f"{tmp_path}/r", "--json", "--path", str(tmp_path)).out)
    assert (data["recipes"], data["drawn"]) == (0, 0) and data["bytes"] == (tmp_path / "r").stat().st_size
    assert run("recipes", "report", "--html", f"{tmp_path}/no/r", "--path", str(tmp_path)).code == 1
    assert run("recipes", "report", "--path", str(tmp_path)).code == 2


def test_a_browser_understands_it(page: Path, browser: Browser, tmp_path: Path) -> None:
    document, complaints = browser.document(page)
    assert complaints == ""
    assert "<title>Recipes in" in document, "nothing in the page changed it"
    assert document.count("<svg ") == page.read_text().count("<svg ") == 9
    assert EVIL in unescape(document) and "<script" not in document


def test_a_browser_paints_it(page: Path, browser: Browser, tmp_path: Path) -> None:
    colours = _colours(browser.screenshot(page, tmp_path / "page.png", 900, 700))
    assert {(0x2F, 0x6F, 0xC1), (0xC9, 0x8A, 0x2B)} <= colours, "hits; rims of misses, and compile times"


def _colours(png: bytes) -> set[tuple[int, ...]]:
    """Colours of an 8-bit RGB or RGBA PNG (sections 7 and 9 of its specification)."""
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    step = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    data = zlib.decompress(data)
    found: set[tuple[int, ...]] = set()
    above = bytes(width * step)
    for y in range(height):
        start = y * (width * step + 1)
        method, line = data[start], bytearray(data[start + 1 : start + 1 + width * step])
        for x in range(len(line)) if method else ():
            left, up, corner = (line[x - step], above[x], above[x - step]) if x >= step else (0, above[x], 0)
            line[x] = (line[x] + (0, left, up, (left + up) // 2, _paeth(left, up, corner))[method]) & 255
        above = bytes(line)
        found.update(zip(*(above[c::step] for c in range(3)), strict=True))
    return found


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def test_every_kernel_is_in_figures_the_costliest_first(page: Path, cached: Keys, run: Callable[..., Any]) -> None:
    text = page.read_text()
    kernels = json.loads(run("recipes", "show", cached["64"], "--json").out)["kernels"]
    costs = [k["at_least_seconds"] for k in kernels]
    section = next(part for part in text.split("<section")[1:] if cached["64"][:12] in part)
    table = section[section.index("The kernels, the costliest first") :]
    numbers = [int(n) for n in re.findall(r'<tr><td class="n">(\d+)</td>', table[: table.index("</table>")])]
    assert numbers == sorted(range(len(kernels)), key=lambda k: (-costs[k], k))


def test_runs_are_in_figures_and_not_told_apart_by_colour_alone(page: Path) -> None:
    text = page.read_text()
    assert "Hits (filled) and misses (outlined)" in text and "runs in figures" in text
    style = re.search(r"\.miss \{([^}]*)\}", text)
    assert style is not None and "stroke:" in style[1]
