"""Begins a program with an empty recipe cache, where PT_HPU_RECIPE_CACHE_CONFIG asks for it."""

from __future__ import annotations

import logging
import os

from habana_tf.cache import NoDirectory, ReadOnly, Refused, clear
from habana_tf.hardware import ranks
from habana_tf.settings import PT_CACHE_FOLDER_DELETE, TF_RECIPE_CACHE_PATH

_log = logging.getLogger("habana_tf")


def clear_if_asked() -> None:
    """Removes all recipes once in a program: in the process of local rank 0, and in none that it starts. Others may
    have read recipes by then, or compile them again. A cache that cannot be cleared is said to be so.

    Raises settings.SettingError, and hardware.ranks.RankError.
    """
    path = TF_RECIPE_CACHE_PATH.get()
    if not PT_CACHE_FOLDER_DELETE.get() or path is None or not os.path.isdir(path):
        return
    if ranks.here().local_rank == 0:
        try:
            clear(path)
        except (NoDirectory, ReadOnly, Refused, OSError) as why:
            _log.warning("recipe cache %s is not cleared: %s", path, why)
    PT_CACHE_FOLDER_DELETE.set("0")
