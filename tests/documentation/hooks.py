"""What MkDocs asks of this project while it builds the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PERHAPS = {"slurm.md", "kubernetes.md", "install.md"}
"""Pages that the navigation has a place for and that may not be there."""


def on_config(config: Any) -> Any:
    """Takes pages that are not there out of the navigation; of others a missing one is an error."""
    folder = Path(config.docs_dir)
    for section in config.nav:
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [each for each in entries if not _missing(each, folder)]
    return config


def _missing(entry: Any, folder: Path) -> bool:
    page = next(iter(entry.values())) if isinstance(entry, dict) else entry
    return isinstance(page, str) and page in PERHAPS and not (folder / page).exists()
