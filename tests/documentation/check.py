"""What a built page makes a browser fetch: nothing may be on another machine.

Links that a reader clicks may lead anywhere. Whatever loads by itself (pictures, scripts, styles, fonts, frames) has to
lie beside the pages, so that the site is read without a network and no other machine learns of it. Material's script
fetches a library for drawings in the language of Mermaid from elsewhere when a page has such a drawing: none may.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

_LOADED = {"img": ("src", "srcset"), "script": ("src",), "iframe": ("src",), "source": ("src", "srcset"),
           "audio": ("src",), "video": ("src", "poster"), "embed": ("src",), "object": ("data",)}  # fmt: skip
_LINKS = {"stylesheet", "icon", "preload", "preconnect", "prefetch", "dns-prefetch", "modulepreload", "manifest"}
_ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
_IN_STYLES = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.drawings = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.loaded += [values[name] for name in _LOADED.get(tag, ()) if name in values]
        if tag == "link" and _LINKS & set(values.get("rel", "").split()):
            self.loaded.append(values.get("href", ""))
        self.loaded += _IN_STYLES.findall(values.get("style", ""))
        self.drawings = self.drawings or "mermaid" in values.get("class", "").split()


def pages(site: Path) -> list[Path]:
    """The HTML pages of a built site."""
    return sorted(site.rglob("*.html"))


def asked_elsewhere(site: Path) -> list[str]:
    """ "page: address" of whatever loads by itself from another machine."""
    out = []
    for page in pages(site):
        text = page.read_text()
        reader = _Page()
        reader.feed(text)
        styles = "\n".join(re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL))
        loaded = [each for each in reader.loaded if _ELSEWHERE.match(each)] + _IN_STYLES.findall(styles)
        loaded += ["a drawing in the language of Mermaid"] if reader.drawings else []
        out += [f"{page.relative_to(site)}: {each}" for each in loaded]
    for sheet in sorted(site.rglob("*.css")):
        out += [f"{sheet.relative_to(site)}: {each}" for each in _IN_STYLES.findall(sheet.read_text())]
    return out
