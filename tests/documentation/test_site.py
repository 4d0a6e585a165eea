"""The site's pages as they are put together, and the check of built pages. `make site` builds them, and CI with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from habana_tf import settings
from habana_tf.settings import habana
from tests.documentation import api, check, stage, tables

pytestmark = pytest.mark.skipif(not stage.DOCS.exists(), reason="not in a source tree")


@pytest.mark.parametrize(
    "html",
    [
        '<img src="https://example.org/a.png">',
        '<script src="//example.org/a.js"></script>',
        '<link rel="preconnect" href="https://example.org">',
        '<link href="http://example.org/a.css" rel="stylesheet">',
        "<style>@import 'https://example.org/a.css'; p { color: red }</style>",
        '<p style="background: url(https://example.org/a.png)"></p>',
        '<pre class="mermaid"><code>graph LR</code></pre>',
    ],
)
def test_what_is_asked_of_another_machine_is_found(html: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<html>{html}</html>")
    assert len(check.asked_elsewhere(tmp_path)) == 1


def test_links_that_a_reader_clicks_and_files_beside_the_page_are_fine(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">x</a><img src="a.png"><code>url(https://x)</code>'
    )
    (tmp_path / "site.css").write_text("a { background: url(images/a.svg) }")
    assert not check.asked_elsewhere(tmp_path)
    (tmp_path / "site.css").write_text("@font-face { src: url(//fonts.example.org/a.woff) }")
    assert check.asked_elsewhere(tmp_path) == ["site.css: //fonts.example.org/a.woff"]


def test_every_page_is_in_the_navigation_and_every_entry_a_page() -> None:
    """Generated pages and those from elsewhere are; pages of other sources are reached by links."""
    nav = (stage.ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = set(re.findall(r"(\S+\.md)$", nav, re.MULTILINE))
    written = {str(path.relative_to(stage.DOCS)) for path in stage.DOCS.rglob("*.md")}
    assert listed == written | stage.generated_names() | set(stage.MOVED.values())


def test_a_link_to_a_source_leads_to_a_page_that_shows_it(tmp_path: Path) -> None:
    sources: set[Path] = set()
    text = stage.page(stage.DOCS / "custom-ops.md", Path("custom-ops.md"), sources)
    assert "](source/examples/custom_ops/gated_swish-py.md)" in text
    assert Path("examples/custom_ops/gated_swish.py") in sources
    text = stage.page(stage.DOCS / "placement.md", Path("placement.md"), sources)
    assert "](contributing.md#adding-an-op)" in text
    assert "[Ops of your own](custom-ops.md)" in text and "[custom-ops.md]" not in text


def test_links_of_the_readme_lead_somewhere() -> None:
    """It is no page of the site, whose front page has its place."""
    assert "](guides/port-a-script.md)" in stage.page(stage.ROOT / "README.md", Path("index.md"), set())


def test_a_link_to_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "ROOT", tmp_path)
    monkeypatch.setattr(stage, "DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("See [that](gone.md).\n")
    with pytest.raises(ValueError, match=r"docs/page.md links to gone.md"):
        stage.page(page, Path("page.md"), set())


def test_tables_have_every_setting_variable_and_module() -> None:
    page = tables.settings()
    assert all(f"| `{each.name}` |" in page for each in settings.declared())
    variables = tables.variables()
    for name in {**habana.without_effect(), **habana.read_by_others()}:
        assert f"| `{name}` |" in variables, name
    assert "| `TF_ENABLE_BF16_CONVERSION` | works here, as the older name of `TF_BF16_CONVERSION` |" in variables
    modules = tables.modules()
    assert len(api.theirs()) >= 15 and all(f"| **`{name}`**" in modules for name in api.theirs())
    assert "habana_layer_norm_grad" in modules


@pytest.mark.rest
def test_the_reference_has_every_public_name() -> None:
    """What `habana_tf` offers at its top is on a page with its arguments, as functions and classes."""
    pytest.importorskip("griffe", reason="it builds the site: make site")
    import habana_tf

    pages = api.pages()
    text = "\n".join(pages.values())
    for name in sorted(habana_tf._WHERE):
        assert re.search(rf"^##+ {name}$", text, re.MULTILINE), name
    predict = pages["reference/api/prediction.md"].split("## predict\n")[1].split("\n## ")[0]
    for argument in ("chip: ", "cards: int = 1", "precision: "):
        assert argument in predict, argument


@pytest.mark.rest
@pytest.mark.skipif(not (stage.ROOT / "build/site").exists(), reason="not built: make site")
@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium on this machine")
@pytest.mark.parametrize(
    "words, page",
    [
        ("not worth a launch", "concepts/launch.html"),
        ("compiled again", "recompilations.html"),
        ("TF_CLUSTER_VARIABLES", "coming-from-habana.html"),
        ("exports habana_kernels", "reference/messages.html"),
    ],
)
def test_the_search_works_for_a_site_in_a_folder(words: str, page: str, tmp_path: Path) -> None:
    """The first page that it finds, in a browser to which no server answers."""
    address = f"{(stage.ROOT / 'build/site/index.html').as_uri()}?q={words.replace(' ', '+')}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom",
               "--virtual-time-budget=20000", "--host-resolver-rules=MAP * ~NOTFOUND"]  # fmt: skip
    done = subprocess.run(["chromium", *options, address], capture_output=True, text=True, timeout=120, check=True)
    found = done.stdout.split("md-search-result__list", 1)[1]
    first = re.search(r'href="[^"]*/build/site/([^"?#]+)', found)
    assert first and first[1] == page, found[:2000]
