"""The recipe cache: asked before every compilation.

    entry = cache.lookup(key, name)
    if entry is None:
        with cache.compiling(key) as entry:
            if entry is None:
                ...compile...
                entry = cache.store(key, name, header, sections, compile_seconds)

`key` names the parts of a key, `entry` describes the file, `habana_tf.trust` says which files are believed, `store`
is the disk level, `levels` puts memory before it, `stats` counts.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Difference, Key, KeyPart, diff
from habana_tf.cache.levels import KnownFailure, RecipeCache
from habana_tf.cache.stats import Stats

__all__ = [
    "Difference", "Entry", "Key", "KeyPart", "KnownFailure", "Stats", "compiling", "diff", "lookup", "stats", "store",
    "store_failure",
]  # fmt: skip

_PROCESS = RecipeCache()
atexit.register(lambda: _PROCESS.close())


def lookup(key: Key, name: str = "") -> Entry | None:
    """The recipe of `key`, from memory or disk, verified; None when it has to be compiled.

    name: the cluster's, for the journal. Raises KnownFailure when it was tried lately and cannot be compiled.
    """
    return _PROCESS.lookup(key, name)


def store(
    key: Key, name: str, header: Mapping[str, Any], sections: Mapping[str, bytes], compile_seconds: float
) -> Entry:
    """Keeps a recipe just compiled and returns its entry. Trouble with the disk is a warning, never an error."""
    return _PROCESS.store(key, name, header, sections, compile_seconds)


def store_failure(key: Key, name: str, header: Mapping[str, Any], reason: str, compile_seconds: float) -> Entry:
    """Keeps for a while that a cluster cannot be compiled, and why. Only for what would fail again."""
    return _PROCESS.store_failure(key, name, header, reason, compile_seconds)


def compiling(key: Key) -> AbstractContextManager[Entry | None]:
    """Held while compiling `key`: one thread of one process compiles, all others wait and get the entry.

    Raises KnownFailure for those who waited for a compilation that failed.
    """
    return _PROCESS.compiling(key)


def stats() -> Stats:
    """What this process's cache did so far."""
    return _PROCESS.stats
