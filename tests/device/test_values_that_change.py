"""Ops whose shapes follow from data, called with other data each time: stock TensorFlow's numbers, and few recipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.resolver import recompilations
from tests.child import on_hpu

CALLS = 24
ROWS = 30
MOST_RECIPES = 8
"""Of an op: those of its first shapes, and a range. A call in which several ops change has more, not more per call."""


def _rows(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape or (ROWS, 3)).astype(np.float32)


def _ids(rng: Any, k: int) -> Any:
    return np.sort(rng.integers(0, 4 + k, ROWS)).astype(np.int32)


def _halves(rng: Any) -> tuple[Any, Any]:
    order = rng.permutation(ROWS).astype(np.int32)
    return order[: ROWS // 3], order[ROWS // 3 :]


Given = tuple[Any, ...]
CASES: dict[str, tuple[Callable[[Any, int], Given], Callable[..., Any]]] = {
    "segment_sum": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_sum),
    "segment_mean": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_mean),
    "segment_max": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_max),
    "segment_min": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_min),
    "segment_prod": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_prod),
    "sparse_segment_sum": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), _ids(rng, k)), tf.sparse.segment_sum),
    "sparse_segment_mean": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), _ids(rng, k)), tf.sparse.segment_mean),
    "sparse_segment_sqrt_n": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), _ids(rng, k)), tf.sparse.segment_sqrt_n),
    "unsorted_segment_sum": (
        lambda rng, k: (_rows(rng), rng.integers(-1, 5 + k, ROWS), 5 + k), tf.math.unsorted_segment_sum),
    "dynamic_stitch": (
        lambda rng, k: (*_halves(rng), _rows(rng, ROWS // 3, 3), _rows(rng, ROWS - ROWS // 3, 3)),
        lambda a, b, x, y: tf.dynamic_stitch([a, b], [x, y])),
    "embedding_lookup_partitioned": (
        lambda rng, k: (rng.integers(0, 12, ROWS), *(_rows(rng, 4, 3) for _ in range(3))),
        lambda i, *tables: tf.nn.embedding_lookup(list(tables), i)),
    "slice": (lambda rng, k: (_rows(rng), np.int32([k % 5 + 1, 0]), np.int32([k + 1, 2])), tf.slice),
    "gather": (lambda rng, k: (_rows(rng), rng.integers(0, ROWS, 3 + k)), tf.gather),
    "one_hot": (lambda rng, k: (rng.integers(0, 5, 9), 5 + k), tf.one_hot),
    "tile": (lambda rng, k: (_rows(rng, 2, 3), np.int32([k + 1, 2])), tf.tile),
    "scatter_nd": (
        lambda rng, k: (rng.integers(0, 5, (9, 1)), _rows(rng, 9, 3), np.int64([5 + k, 3])), tf.scatter_nd),
    "sparse_times_dense": (
        lambda rng, k: (np.stack([np.arange(9)] * 2, 1), _rows(rng, 9), np.int64([9 + k, 9]), _rows(rng, 9, 2)),
        lambda i, v, s, d: tf.sparse.sparse_dense_matmul(tf.SparseTensor(i, v, s), d)),
    "top_k": (lambda rng, k: (_rows(rng, 3, 40), k + 1), tf.math.top_k),
    "resize": (lambda rng, k: (_rows(rng, 1, 5, 6, 2), np.int32([3 + k, 4 + k])), tf.image.resize),
    "range": (lambda rng, k: (k + 1,), tf.range),
}  # fmt: skip


def _wrong(name: str, mode: str) -> list[str]:
    """What is not as it should be of a case."""
    make, call = CASES[name]
    rng = np.random.default_rng(0)
    given = [make(rng, k) for k in range(CALLS)]
    run = tf.function(call, reduce_retracing=True) if mode == "function" else call
    recompilations.reset()
    got = [tf.nest.flatten(run(*map(tf.constant, x))) for x in given]
    report = recompilations.recompilation_report()
    wrong = []
    for op, how in (*report.one_op.items(), *((c.name, c.counts) for c in report.clusters)):
        if how.get("compiled", 0) > MOST_RECIPES or how.get("interpreted", 0):
            wrong.append(f"{name} {mode}: {op} {how}")
    for k, (x, result) in enumerate(zip(given, got, strict=True)):
        with tf.device("/CPU:0"):
            want = tf.nest.flatten(call(*map(tf.constant, x)))
        for a, b in zip(result, want, strict=True):
            if a.shape != b.shape or not np.allclose(a, b, 1e-5, 1e-6):
                wrong.append(f"{name} {mode}: call {k} is wrong")
    return wrong


@on_hpu
def test_other_values_need_no_recipe_of_their_own() -> None:
    few = ("segment_sum", "sparse_segment_mean", "dynamic_stitch", "embedding_lookup_partitioned", "tile")
    wrong = [each for name in few for each in _wrong(name, "eager")]
    assert not wrong, wrong


@pytest.mark.rest
@on_hpu
def test_other_values_need_no_recipe_of_their_own_eagerly() -> None:
    wrong = [each for name in CASES for each in _wrong(name, "eager")]
    assert not wrong, wrong


@pytest.mark.rest
@on_hpu
def test_other_values_need_no_recipe_of_their_own_in_a_function() -> None:
    wrong = [each for name in CASES for each in _wrong(name, "function")]
    assert not wrong, wrong


@on_hpu
def test_ids_that_are_refused_are_refused_after_others_were_taken() -> None:
    x = tf.ones([3, 2])
    for k in range(10):
        tf.math.segment_sum(x, [0, k, k + 1])
    for ids in ([0, 2, 1], [-1, 0, 0]):
        said = []
        for device in ("/HPU:0", "/CPU:0"):
            with tf.device(device):
                try:
                    tf.math.segment_sum(x, ids)
                except tf.errors.InvalidArgumentError as error:
                    said.append(error.message.split("[Op")[0].split("}}")[-1].strip())
        assert len(said) == 2 and said[0] == said[1], said


@on_hpu
def test_the_last_of_rows_for_one_place_stays_and_indices_have_any_rank() -> None:
    for indices, parts in (
        ([[0, 2], [1], [2, 0, 0]], [[[1.0], [2.0]], [[3.0]], [[4.0], [5.0], [6.0]]]),
        ([0, [[1, 2], [3, 1]]], [[7.0], [[[1.0], [2.0]], [[3.0], [4.0]]]]),
        ([np.int32(1), np.int32(0)], [[1.0, 2.0], [3.0, 4.0]]),
    ):
        got = tf.dynamic_stitch(indices, parts)
        with tf.device("/CPU:0"):
            np.testing.assert_array_equal(got, tf.dynamic_stitch(indices, parts))
