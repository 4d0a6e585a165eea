"""The recipe cache: asked before every compilation.

    entry = cache.lookup(key, name)
    if entry is None:
        with cache.compiling(key) as entry:
            if entry is None:
                ...compile...
                entry = cache.store(key, name, header, sections, compile_seconds)

Whatever is wrong with the disk, a compile goes on: these functions warn and never raise for it. For people and tools
there are, on any cache directory and without TensorFlow: `entries`, `verify`, `prune`, `clear`, `health` (see
`directory`), `events`, `runs`, `totals`, `misses`, `explain` (see `history`), `export_bundle`, `import_bundle` (see
`bundle`); those raise. `RecipeLogger` is a Keras callback that logs `stats()` for TensorBoard.

`key` names the parts of a key, `entry` describes the file, `habana_tf.trust` and `signature` say what is believed,
`store` is the disk level, `bounds` keeps it small, `levels` puts memory before it, `stats` counts, `journal` remembers.
docs/recipe-cache.md has the format and the threat model.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from habana_tf.cache.bounds import Swept
from habana_tf.cache.bundle import BundleError, Exported, Imported, export_bundle, import_bundle
from habana_tf.cache.directory import Health, NoDirectory, ReadOnly, Verified, clear, entries, health, prune, verify
from habana_tf.cache.entry import Entry, EntryError
from habana_tf.cache.history import Miss, Run, events, explain, misses, runs, totals
from habana_tf.cache.journal import Event
from habana_tf.cache.key import Difference, Key, KeyPart, diff
from habana_tf.cache.levels import KnownFailure, RecipeCache
from habana_tf.cache.listing import Listed
from habana_tf.cache.stats import Counts, Stats
from habana_tf.trust import Refused

if TYPE_CHECKING:
    from habana_tf.cache.recipe_logger import RecipeLogger as RecipeLogger

__all__ = [
    "BundleError", "Counts", "Difference", "Entry", "EntryError", "Event", "Exported", "Health", "Imported", "Key",
    "KeyPart", "KnownFailure", "Listed", "Miss", "NoDirectory", "ReadOnly", "RecipeLogger", "Refused", "Run", "Stats",
    "Swept", "Verified", "clear", "compiling", "diff", "entries", "events", "explain", "export_bundle", "health",
    "import_bundle", "lookup", "misses", "prune", "runs", "stats", "store", "store_failure", "totals", "verify",
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


def __getattr__(name: str) -> Any:
    """The one name that needs TensorFlow."""
    if name == "RecipeLogger":
        from habana_tf.cache.recipe_logger import RecipeLogger

        return RecipeLogger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
