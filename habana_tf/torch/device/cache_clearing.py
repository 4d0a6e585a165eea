"""Empties the recipe cache when a program begins, if PT_HPU_RECIPE_CACHE_CONFIG asks for it."""

from __future__ import annotations

import logging
import os

from habana_tf.cache import NoDirectory, ReadOnly, Refused, clear
from habana_tf.hardware import ranks
from habana_tf.settings import PT_CACHE_FOLDER_DELETE, TF_RECIPE_CACHE_PATH

_log = logging.getLogger("habana_tf")


def clear_if_asked() -> None:
    """Removes all recipes, once for a job: in the process of local rank 0, and not again in processes that it starts.
    Other ranks may have loaded recipes by then, or compile them again. Logs a warning if it cannot.

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
