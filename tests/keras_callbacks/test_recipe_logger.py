"""The Keras callback writes the counters that TensorBoard shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import habana_tf
from habana_tf.cache import process_cache
from habana_tf.cache.recipe_cache import RecipeCache


def _scalars(folder: Path) -> dict[tuple[str, int], float]:
    """All scalars of the event files in a folder, by tag and step; read with TensorFlow's own reader."""
    found = {}
    for path in folder.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
                assert value.metadata.plugin_data.plugin_name == "scalars"
    return found


def _fit(folder: Path, epochs: int, every: int = 1) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss="mse")
    x = np.ones((8, 3), np.float32)
    logger = habana_tf.RecipeLogger(str(folder), every=every)
    model.fit(x, x[:, :2], epochs=epochs, verbose=0, callbacks=[logger])


def test_counters_of_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = RecipeCache()
    monkeypatch.setattr(process_cache, "CACHE", recipes)
    recipes.stats.add(compiled=3, compile_seconds=1.5, memory_hits=2, disk_hits=1, misses=3)
    _fit(tmp_path, epochs=2)
    scalars = _scalars(tmp_path)
    for step in (0, 1):
        assert scalars["recipes/compiled", step] == 3
        assert scalars["recipes/compile_seconds", step] == 1.5
        assert scalars["recipes/hits", step] == 3
        assert scalars["recipes/misses", step] == 3
    assert {step for _, step in scalars} == {0, 1}


def test_not_every_epoch_need_be_logged(tmp_path: Path) -> None:
    _fit(tmp_path, epochs=4, every=2)
    assert {step for _, step in _scalars(tmp_path)} == {1, 3}
    with pytest.raises(ValueError, match="every=0"):
        habana_tf.RecipeLogger(str(tmp_path), every=0)


def test_its_former_place_still_has_it() -> None:
    assert habana_tf.cache.RecipeLogger is habana_tf.RecipeLogger
