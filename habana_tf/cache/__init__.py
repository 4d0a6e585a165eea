"""The recipe cache: asked before every compilation.

    entry = cache.lookup(key)
    if entry is None:
        with cache.compiling(key) as entry:
            if entry is None:
                ...compile...
                entry = cache.store(key, name, header, sections, compile_seconds)

`key` names the parts of a key, `entry` describes the file, `habana_tf.trust` says which files are believed, `store`
is the disk level, `levels` puts memory before it, `stats` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Difference, Key, KeyPart, diff
from habana_tf.cache.levels import RecipeCache
from habana_tf.cache.stats import Stats

__all__ = ["Difference", "Entry", "Key", "KeyPart", "Stats", "compiling", "diff", "lookup", "stats", "store"]

_PROCESS = RecipeCache()


def lookup(key: Key) -> Entry | None:
    """The recipe of `key`, from memory or disk, verified; None when it has to be compiled."""
    return _PROCESS.lookup(key)


def store(
    key: Key, name: str, header: Mapping[str, Any], sections: Mapping[str, bytes], compile_seconds: float
) -> Entry:
    """Keeps a recipe just compiled and returns its entry. Trouble with the disk is a warning, never an error."""
    return _PROCESS.store(key, name, header, sections, compile_seconds)


def compiling(key: Key) -> AbstractContextManager[Entry | None]:
    """Held while compiling `key`: one thread of one process compiles, all others wait and get the entry."""
    return _PROCESS.compiling(key)


def stats() -> Stats:
    """What this process's cache did so far."""
    return _PROCESS.stats
