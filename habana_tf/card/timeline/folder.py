"""A folder in which each process of a job leaves its part of the timeline, as a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from habana_tf.files import trust

SUFFIX = ".part.json"


def write(part: dict[str, Any], folder: str | Path) -> Path:
    """Leaves a part in a folder, where `read` finds it. Raises OSError."""
    path = Path(folder) / f"rank{part['rank']:04d}-{part['host']}-{part['pid']}{SUFFIX}"
    unfinished = path.with_suffix(".tmp")
    with os.fdopen(trust.replaced(unfinished), "w", encoding="utf-8") as file:
        file.write(json.dumps(part, separators=(",", ":")))
    unfinished.rename(path)
    return path


def read(folder: str | Path) -> list[dict[str, Any]]:
    """All parts in a folder, by rank."""
    found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob(f"*{SUFFIX}")) if path.is_file()]
    return sorted(found, key=lambda part: (part["rank"], part["host"], part["pid"]))
