"""Ops whose shapes follow from data, called with other data each time: stock TensorFlow's numbers, and few recipes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf import placement_report
from habana_tf.cluster import left_to_cpu
from habana_tf.resolver import recompilations
from habana_tf.resolver.by_value import MOST_VALUES, MOST_VALUES_AND_SIZES
from habana_tf.resolver.ranged import FIRST_PRODUCTS
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.lowering import table
from tests.child import fallbacks, on_hpu
from tests.device.changing_values import CASES

MOST_RECIPES = 12
"""Of an op or a cluster: those of its first shapes, and a few ranges. A call in which several ops change has more."""
PRODUCTS = {"product_einsum", "product_of_rows_and_vector", "product_bf16", "product_and_gradients",
            "conv_and_gradients"}  # fmt: skip
"""Cases with products that run eagerly by themselves: of those many shapes have code of their own first."""
BY_VALUE = {"matrix_diag", "matrix_diag_sized", "matrix_diag_part", "matrix_set_diag", "max_pool", "max_pool_gradient",
            "range_of_floats", "space_to_batch", "resize_area", "resize_bicubic",
            "resize_nearest_grad"}  # fmt: skip
"""Cases in which each value decides a recipe, or the conditions of a range."""
WITH_SIZES = {"matrix_set_diag", "max_pool_gradient"}
"""Those of them in which each value comes with sizes of its own."""


WITHOUT_A_CASE = {
    **dict.fromkeys(("Concat", "ConcatOffset", "CumulativeLogsumexp", "EuclideanNorm", "Mean", "Split"), "an axis"),
    **dict.fromkeys(("SegmentSumV2", "XlaDynamicSlice"), "TensorFlow has no CPU kernel to compare with"),
    "Multinomial": "as StatelessMultinomial, but for where its numbers come from",
    **dict.fromkeys(("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformInt",
                     "StatefulUniformFullInt"), "their stateless kinds are what TensorFlow's generators call"),
}  # fmt: skip
"""Rows with fixed inputs, and why no case is theirs. A row for all shapes (`generic`) needs none."""


@pytest.mark.rest
def test_every_row_with_fixed_inputs_has_a_case() -> None:
    """By its lowering: rows that share one are of one kind."""
    called: set[str] = set()
    for make, call in CASES.values():
        given = [tf.constant(x) for x in make(np.random.default_rng(0), 3)]
        called |= {op.type for op in tf.function(call).get_concrete_function(*given).graph.get_operations()}

    def lowering(row: Any) -> Any:
        found = row.lower
        while isinstance(found, partial):
            found = found.func
        return found.__code__

    fixed = [row for row in table.rows().values() if row.fixed and not row.generic]
    met = {lowering(row) for row in fixed if row.op in called}
    assert {row.op for row in fixed if lowering(row) not in met} == set(WITHOUT_A_CASE)


def _wrong(name: str, mode: str, calls: int = 24, most: int = MOST_RECIPES) -> list[str]:
    """What is not as it should be of a case: more than so many recipes of an op, or other numbers than TensorFlow's."""
    make, call = CASES[name]
    rng = np.random.default_rng(0)
    given = [make(rng, k) for k in range(calls)]
    run = tf.function(call, reduce_retracing=True) if mode == "function" else call
    recompilations.reset()
    got = [tf.nest.flatten(run(*map(tf.constant, x))) for x in given]
    report = recompilations.recompilation_report()
    wrong = []
    for op, how in (*report.one_op.items(), *((c.name, c.counts) for c in report.clusters)):
        left = how.get("cpu", 0) and name not in BY_VALUE
        if how.get("compiled", 0) > most or how.get("interpreted", 0) or left:
            wrong.append(f"{name} {mode}: {op} {how}")
    for k, (x, result) in enumerate(zip(given, got, strict=True)):
        with tf.device("/CPU:0"):
            want = tf.nest.flatten(call(*map(tf.constant, x)))
        for a, b in zip(result, want, strict=True):
            if a.shape != b.shape or not np.allclose(a, b, *((2e-2, 2e-2) if "bf16" in name else (1e-4, 1e-4))):
                wrong.append(f"{name} {mode}: call {k} is wrong")
    return wrong


@on_hpu
def test_other_values_need_no_recipe_of_their_own() -> None:
    few = ("segment_sum", "dynamic_stitch", "split_v_rest", "strided_slice_grad")
    wrong = [each for name in few for each in _wrong(name, "eager", 10)]
    assert not wrong, wrong


@on_hpu
def test_products_of_sizes_that_change_need_few_recipes() -> None:
    wrong = _wrong("product_einsum", "function", 14)
    assert not wrong, wrong


@on_hpu
def test_values_that_each_decide_a_recipe_are_left_to_the_cpu_after_some_and_the_report_says_so() -> None:
    left_to_cpu.reset()
    with fallbacks():
        wrong = [*_wrong("matrix_diag", "eager", 20, MOST_VALUES), *_wrong("matrix_diag", "function", 20, MOST_VALUES)]
    assert not wrong, wrong
    report = placement_report()
    assert report.eager["MatrixDiagV3"] is Reason.BY_VALUE
    assert Reason.BY_VALUE.value in str(report) and len(left_to_cpu.noted()) == 2


@on_hpu
def test_with_fallbacks_forbidden_each_value_has_its_recipe() -> None:
    assert any("{'compiled': 18}" in each for each in _wrong("matrix_diag_part", "eager", 18, MOST_VALUES))


@pytest.mark.rest
@on_hpu
def test_other_values_need_no_recipe_of_their_own_eagerly() -> None:
    with fallbacks():
        wrong = [each for name in CASES if name not in PRODUCTS for each in _wrong(name, "eager", *_calls(name))]
    assert not wrong, wrong


@pytest.mark.rest
@on_hpu
def test_other_values_need_no_recipe_of_their_own_in_a_function() -> None:
    with fallbacks():
        wrong = [each for name in CASES for each in _wrong(name, "function", *_calls(name))]
    assert not wrong, wrong


@pytest.mark.rest
@on_hpu
def test_products_by_themselves_get_a_range_after_their_first_shapes() -> None:
    wrong = [
        each for name in sorted(PRODUCTS) for each in _wrong(name, "eager", FIRST_PRODUCTS + 9, FIRST_PRODUCTS + 2)
    ]
    assert not wrong, wrong


def _calls(name: str) -> tuple[int, int]:
    """How many calls of a case are made, and how many recipes they may have."""
    if name in WITH_SIZES:
        return MOST_VALUES_AND_SIZES + 8, MOST_VALUES_AND_SIZES
    return 24, MOST_VALUES if name in BY_VALUE else MOST_RECIPES


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
