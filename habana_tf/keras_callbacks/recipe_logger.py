"""A Keras callback that logs what the recipe cache did, for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import summary_pb2

from habana_tf.cache import process_cache

# Of `counters.Counts`, what tells how a training run goes; hits are added up.
_SHOWN = ("compiled", "failed", "known_failures", "corrupt", "refused", "evicted", "failures", "compile_seconds",
          "saved_seconds", "wait_seconds")  # fmt: skip

_SCALAR = summary_pb2.SummaryMetadata(
    plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=summary_pb2.DATA_CLASS_SCALAR,
)


class RecipeLogger(tf.keras.callbacks.Callback):
    """Writes this process's recipe counters to `log_dir` after each epoch, as scalars `recipes/...`.

        model.fit(..., callbacks=[habana_tf.RecipeLogger("logs")])

    The step of a scalar is the number of the epoch, from 0. A curve `recipes/compiled` that still rises after the
    first epochs means that shapes keep changing: `habana_tf.recompilation_report()` says which.

    log_dir: a directory for event files. every: epochs from one line of scalars to the next.
    """

    def __init__(self, log_dir: str, every: int = 1) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"RecipeLogger: every={every} is not allowed: use 1 or more")
        self._log_dir = log_dir
        self._every = every
        self._writer: Any = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Opens the event file."""
        self._writer = tf.summary.create_file_writer(self._log_dir)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Writes the counters."""
        if self._writer is None or (epoch + 1) % self._every:
            return
        counts = process_cache.CACHE.stats.to_json()
        shown = {name: counts[name] for name in _SHOWN}
        shown["hits"] = counts["memory_hits"] + counts["disk_hits"] + counts["shared"]
        shown["misses"] = counts["misses"]
        # Scalars are the host's business; on HPU each would be a launch.
        with self._writer.as_default(step=epoch), tf.device("/CPU:0"):
            for name, value in sorted(shown.items()):
                # What tf.summary.scalar does, which needs TensorBoard to be installed where the log is written.
                tf.summary.write(f"recipes/{name}", tf.constant(value, tf.float32), metadata=_SCALAR)
        self._writer.flush()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Closes the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
