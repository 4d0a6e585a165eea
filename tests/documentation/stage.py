"""The pages as MkDocs reads them: docs/, a few pages from elsewhere, and the generated ones.

Pages link to each other and to sources as they lie in the repository, so that they work there. The site has no
repository around it: a link to a source file leads to a page that shows the file, a link to README.md to the front
page, and a link whose text is a page's file name gets the page's title. A list that follows a line of text without an
empty line, which GitHub takes for a list and Python-Markdown does not, gets that line.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.documentation import api, messages, tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples/index.md",
}
"""Pages outside docs/ and where the site has them; README.md stands for the front page, which is docs/index.md."""
LAST = {"changelog.md", "contributing.md", "architecture.md"}
"""Long pages for those who change habana_tf: the search has them below pages for users."""
_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_LANGUAGES = {".py": "python", ".sh": "sh", ".c": "c", ".cc": "c++", ".h": "c++", ".json": "json", ".md": "text"}


def stage(target: Path) -> None:
    """Writes all pages to `target`, anew. Raises ValueError for a link to a file that does not exist."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    sources: set[Path] = set()
    for file in sorted(path for path in DOCS.rglob("*") if path.is_file()):
        place = target / file.relative_to(DOCS)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            place.write_text(page(file, place.relative_to(target), sources))
        else:
            shutil.copy2(file, place)
    for origin, name in MOVED.items():
        if origin != "README.md" and (ROOT / origin).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(page(ROOT / origin, Path(name), sources))
    for name, text in generated().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)
    for source in sorted(sources):
        place = target / _shown(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_source_page(source))


def generated() -> dict[str, str]:
    """Page to text of all that is made from the sources."""
    return {**api.pages(), "reference/settings.md": tables.settings(), "reference/messages.md": messages.page()}


def page(file: Path, place: Path, sources: set[Path]) -> str:
    """The text of a page, its links as the site needs them; files that it links to are added to `sources`."""
    text = _LINK.sub(lambda found: _link(found, file, place, sources), tables.fill(file.read_text()))
    head = "---\nsearch:\n  boost: 0.1\n---\n\n" if str(place) in LAST else ""
    return head + re.sub(r"^((?![-*|>#\s]|\d+\. ).+)\n(?=(?:- |\* |1\. ))", r"\1\n\n", text, flags=re.MULTILINE)


def _link(found: re.Match[str], file: Path, place: Path, sources: set[Path]) -> str:
    label, address, anchor = found[1], found[2], found[3] or ""
    if re.match(r"[a-z]+:", address):
        return found[0]
    goal = Path(os.path.normpath(file.parent / address))
    if not goal.exists() and not _is_generated(goal):
        raise ValueError(f"{file.relative_to(ROOT)} links to {address}, which does not exist")
    if goal.is_relative_to(DOCS):
        name = goal.relative_to(DOCS)
    elif str(goal.relative_to(ROOT)) in MOVED:
        name = Path(MOVED[str(goal.relative_to(ROOT))])
    elif goal.is_dir():
        return label[1:-1]
    else:
        sources.add(goal.relative_to(ROOT))
        name, anchor = _shown(goal.relative_to(ROOT)), ""
    if label == f"[{goal.name}]" and goal.suffix == ".md" and goal.exists():
        label = f"[{_title(goal)}]"  # a file's name says nothing where there are no files
    return f"{label}({os.path.relpath(name, place.parent)}{anchor})"


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return found[1] if found else page.name


def _is_generated(goal: Path) -> bool:
    return goal.is_relative_to(DOCS) and str(goal.relative_to(DOCS)) in generated_names()


def generated_names() -> set[str]:
    """Pages that are in no folder until they are made; written pages may link to them."""
    return {*api.names(), "reference/settings.md", "reference/messages.md"}


def _shown(source: Path) -> Path:
    return Path("source") / source.with_name(source.name.replace(".", "-") + ".md")


def _source_page(source: Path) -> str:
    text = (ROOT / source).read_text()
    language = _LANGUAGES.get(source.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {source}\n\n````{language}\n{text.rstrip()}\n````\n"
