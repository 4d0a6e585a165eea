"""Which attributes that are to be replaced are not there."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from habana_tf.host_changes.change import Group, _owner


def missing(groups: Iterable[Group]) -> list[str]:
    """The targets that are not there, those of packages that are not installed among them."""
    found = []
    for group in groups:
        for change in group.changes:
            try:
                _owner(importlib.import_module(change.module), change)
            except (ImportError, AttributeError):
                found.append(change.target)
    return found
