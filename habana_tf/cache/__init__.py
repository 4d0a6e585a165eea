"""The recipe cache: compiled recipes on disk, looked up before every compilation.

    entry = cache.lookup(key, name)
    if entry is None:
        with cache.compiling(key) as entry:
            if entry is None:
                ...compile...
                entry = cache.store(key, name, header, sections, compile_seconds)

These functions (`process_cache`) never raise for trouble with the disk. For people and tools there are, on any cache
directory and without TensorFlow: `entries`, `verify`, `prune`, `clear`, `health` (see `directory`), `events`, `runs`,
`totals`, `misses`, `explain` (see `history`), `export_bundle`, `import_bundle` (see `bundle`); those raise.

`key` names the parts of a key, `entry` describes the file, `files.trust` and `signature` say what is believed,
`reader` looks into the directory, `listing` at all of it, `disk` is the disk level, `bounds` keeps it small,
`recipe_cache` is what a process has of it, `counters` counts, `journal` remembers. docs/recipe-cache.md has the format
and the threat model.

Importing this package imports none of them: every name is looked up in its module when it is first used, so that a
command that lists recipes does not pay for the cache at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habana_tf.cache.bounds import Swept as Swept
    from habana_tf.cache.bundle import BundleError as BundleError
    from habana_tf.cache.bundle import Exported as Exported
    from habana_tf.cache.bundle import Imported as Imported
    from habana_tf.cache.bundle import export_bundle as export_bundle
    from habana_tf.cache.bundle import import_bundle as import_bundle
    from habana_tf.cache.counters import Counts as Counts
    from habana_tf.cache.counters import Stats as Stats
    from habana_tf.cache.directory import Health as Health
    from habana_tf.cache.directory import Verified as Verified
    from habana_tf.cache.directory import clear as clear
    from habana_tf.cache.directory import entries as entries
    from habana_tf.cache.directory import health as health
    from habana_tf.cache.directory import prune as prune
    from habana_tf.cache.directory import verify as verify
    from habana_tf.cache.entry import Entry as Entry
    from habana_tf.cache.entry_head import EntryError as EntryError
    from habana_tf.cache.history import Miss as Miss
    from habana_tf.cache.history import Run as Run
    from habana_tf.cache.history import events as events
    from habana_tf.cache.history import explain as explain
    from habana_tf.cache.history import misses as misses
    from habana_tf.cache.history import runs as runs
    from habana_tf.cache.history import totals as totals
    from habana_tf.cache.journal import Event as Event
    from habana_tf.cache.key import Difference as Difference
    from habana_tf.cache.key import Key as Key
    from habana_tf.cache.key import KeyPart as KeyPart
    from habana_tf.cache.key import diff as diff
    from habana_tf.cache.listing import Listed as Listed
    from habana_tf.cache.process_cache import compiling as compiling
    from habana_tf.cache.process_cache import lookup as lookup
    from habana_tf.cache.process_cache import stats as stats
    from habana_tf.cache.process_cache import store as store
    from habana_tf.cache.process_cache import store_failure as store_failure
    from habana_tf.cache.reader import NoDirectory as NoDirectory
    from habana_tf.cache.reader import NoPath as NoPath
    from habana_tf.cache.reader import ReadOnly as ReadOnly
    from habana_tf.cache.recipe_cache import KnownFailure as KnownFailure
    from habana_tf.files.trust import Refused as Refused

_NAMES = {
    ".bounds": "Swept",
    ".bundle": "BundleError Exported Imported export_bundle import_bundle",
    ".counters": "Counts Stats",
    ".directory": "Health Verified clear entries health prune verify",
    ".entry": "Entry",
    ".entry_head": "EntryError",
    ".history": "Miss Run events explain misses runs totals",
    ".journal": "Event",
    ".key": "Difference Key KeyPart diff",
    ".recipe_cache": "KnownFailure",
    ".listing": "Listed",
    ".process_cache": "compiling lookup stats store store_failure",
    ".reader": "NoDirectory NoPath ReadOnly",
    "..files.trust": "Refused",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_WHERE)

_WHERE["RecipeLogger"] = "..keras_callbacks.recipe_logger"
"""Is `habana_tf.RecipeLogger` now: a callback of Keras, looked up by its text only, since the cache knows no Keras."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_WHERE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
