"""The recipe cache of this process, as functions: lookup, store, one compilation at a time per key, statistics.

Whatever is wrong with the disk, a compile goes on: these functions warn and never raise for it.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from habana_tf.cache.counters import Stats
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import RecipeCache

_PROCESS = RecipeCache()
atexit.register(lambda: _PROCESS.close())


def lookup(key: Key, name: str = "") -> Entry | None:
    """The recipe of `key` from the directory, verified; None when it has to be compiled.

    name: the cluster's, for the journal. Raises KnownFailure when it was tried lately and cannot be compiled.
    """
    return _PROCESS.lookup(key, name)


def store(
    key: Key, name: str, header: Mapping[str, Any], sections: Mapping[str, bytes], compile_seconds: float
) -> Entry:
    """Counts a recipe just compiled, keeps it where there is a directory, and returns its entry. Trouble with the disk
    is a warning, never an error."""
    return _PROCESS.store(key, name, header, sections, compile_seconds)


def store_failure(key: Key, name: str, header: Mapping[str, Any], reason: str, compile_seconds: float) -> Entry:
    """Keeps for a while that a cluster cannot be compiled, and why. Only for what would fail again."""
    return _PROCESS.store_failure(key, name, header, reason, compile_seconds)


def compiling(key: Key, program: str | None = None, name: str = "") -> AbstractContextManager[Entry | None]:
    """Held while compiling `key`: of the processes that share a directory one compiles, all others wait and get the
    entry.

    program: the digest of what is compiled, for which the cluster `name` may have a recipe under another key. Raises
    KnownFailure where it waited for a compilation that failed.
    """
    return _PROCESS.compiling(key, program, name)


def keeps() -> bool:
    """Whether there is a directory that recipes are kept in."""
    disk = _PROCESS.disk()
    return disk is not None and disk.options.writable


def has(name: str) -> bool:
    """Whether the directory has recipes of a cluster by its name, whatever shapes they are for."""
    disk = _PROCESS.disk()
    return disk is not None and disk.has(name)


def is_warm() -> bool:
    """Whether the directory may well have what a network needs that is not known yet: it had something of what was
    asked of it so far, or nothing was and it has something."""
    counts, disk = _PROCESS.stats.counts(), _PROCESS.disk()
    return disk is not None and (counts.disk_hits > 0 or (counts.misses == 0 and not disk.is_empty()))


def same(key: Key, name: str) -> None:
    """Notes that a miss needs no compilation: this process has the recipe of its program under another key."""
    _PROCESS.same(key, name)


def stats() -> Stats:
    """What this process's cache did so far."""
    return _PROCESS.stats
