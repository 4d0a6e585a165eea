"""What a process keeps of the shapes it met is bounded: recipes, mappings of machine code, memory."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from habana_tf._native import _bridge
from habana_tf.resolver import recipes, recompilations
from tests.child import on_hpu

MOST = 8
"""Recipes in this test; a process of a user's may have 2,048."""
MAPPINGS = 5
"""Of a recipe: code, constants, tables for unwinding, and what the linker has of its own."""


def _mappings() -> int:
    gc.collect()
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def _resident() -> int:
    """KiB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0])


@on_hpu
def test_code_of_shapes_that_were_not_met_for_long_is_unmapped() -> None:
    _bounded(30)


@pytest.mark.rest
@on_hpu
def test_code_of_several_hundred_shapes_is_unmapped() -> None:
    _bounded(400)


def _bounded(shapes: int) -> None:
    """Two functions, each with a recipe per shape: more shapes than may stay, while one shape is met all the time."""

    @tf.function(reduce_retracing=True)
    def first(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(x) + tf.cumsum(x)

    @tf.function(reduce_retracing=True)
    def second(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x) * tf.cumsum(x)

    def step(n: int) -> None:
        x = np.linspace(0.0, 1.0, n).astype(np.float32)
        np.testing.assert_allclose(first(tf.constant(x)), np.exp(x) + x.cumsum(), rtol=1e-4)
        np.testing.assert_allclose(second(tf.constant(x)), np.sin(x) * x.cumsum(), rtol=1e-4, atol=1e-6)

    os.environ["TF_ENABLE_DYNAMIC_SHAPES"] = "0"
    _bridge.set_most_recipes(MOST)
    kept, recipes._memory = recipes._memory, recipes.RecipeMemory(most=MOST // 2)
    try:
        step(1)
        recompilations.reset()
        for n in range(2, 2 + shapes):
            step(n)
            step(1)
            if n == 2 * MOST:
                before = _mappings(), _resident()
        assert _bridge.recipes_in_memory() <= 2 * MOST
        assert _mappings() - before[0] <= MAPPINGS * MOST
        assert _resident() - before[1] <= 24 << 10
        counts = [c.counts["compiled"] for c in recompilations.recompilation_report().clusters]
        assert all(n <= shapes + 2 for n in counts) and len(counts) == 2, counts  # the shape in use kept its recipe
    finally:
        recipes._memory = kept
        _bridge.set_most_recipes(2048)
        del os.environ["TF_ENABLE_DYNAMIC_SHAPES"]


@pytest.mark.rest
@on_hpu
def test_launches_of_several_threads_run_on_while_programs_are_dropped() -> None:
    def work(first: int) -> list[str]:
        wrong = []
        for n in list(range(first, first + 9)) * 4:
            x = np.linspace(0.0, 1.0, 7 * n).astype(np.float32).reshape(7, n)
            got = tf.raw_ops.Cumsum(x=tf.constant(x), axis=n % 2)
            if not np.allclose(got, np.cumsum(x, n % 2), 1e-5):
                wrong.append(f"{n} columns")
        return wrong

    _bridge.set_most_recipes(4)
    kept, recipes._memory = recipes._memory, recipes.RecipeMemory(most=2)
    os.environ["TF_ENABLE_DYNAMIC_SHAPES"] = "0"
    try:
        with ThreadPoolExecutor(4) as pool:
            wrong = [each for found in pool.map(work, (1, 4, 7, 10)) for each in found]
        assert not wrong, wrong
    finally:
        del os.environ["TF_ENABLE_DYNAMIC_SHAPES"]
        recipes._memory = kept
        _bridge.set_most_recipes(2048)
