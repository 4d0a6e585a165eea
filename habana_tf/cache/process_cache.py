"""The recipe cache of this process, and its public functions (`habana_tf.cache`).

Whatever is wrong with the disk, a compile goes on: it warns and never raises for it.
"""

from __future__ import annotations

import atexit

from habana_tf.cache.counters import Stats
from habana_tf.cache.recipe_cache import RecipeCache

CACHE = RecipeCache()
atexit.register(lambda: CACHE.close())

lookup = CACHE.lookup
store = CACHE.store
store_failure = CACHE.store_failure
compiling = CACHE.compiling


def stats() -> Stats:
    """What this process's cache did so far."""
    return CACHE.stats
