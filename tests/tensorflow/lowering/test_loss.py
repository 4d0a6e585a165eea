"""Cross entropy with its gradient against stock TensorFlow on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, arrays, check, evaluate, quick
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from rounding import check_both, check_rounded

R = tf.raw_ops
LOGITS = arrays(F32, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5), low=-8, high=8)


@quick
@given(LOGITS, st.integers(0, 99))
def test_cross_entropy(x: Any, seed: int) -> None:
    labels = np.random.default_rng(seed).dirichlet(np.ones(x.shape[1]), size=x.shape[0]).astype(F32)
    labels = labels.astype(BF16).astype(F32)
    check_both(lambda a, b: R.SoftmaxCrossEntropyWithLogits(features=a, labels=b), x, labels)
    check_both(lambda a, b: R.SoftmaxCrossEntropyWithLogits(features=a, labels=b), x, labels[:1])


@quick
@given(LOGITS, st.sampled_from([np.int32, np.int64]), st.integers(0, 99))
def test_sparse_cross_entropy(x: Any, index: Any, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, x.shape[1], x.shape[0]).astype(index)
    check_both(lambda a, b: R.SparseSoftmaxCrossEntropyWithLogits(features=a, labels=b), x, labels)


def test_sparse_cross_entropy_of_many_classes_behind_a_bias_and_a_cast() -> None:
    numbers = np.random.default_rng(0)
    x, bias = numbers.normal(size=(6, 1003)).astype(BF16), numbers.normal(size=1003).astype(F32)
    labels = np.array([0, 1002, 5, 5, 700, 15], np.int64)

    def loss(a: Any, b: Any, c: Any) -> Any:
        wide = R.Cast(x=a, DstT=tf.float32)
        of_sum = R.SparseSoftmaxCrossEntropyWithLogits(features=R.BiasAdd(value=wide, bias=b), labels=c)
        return *of_sum, *R.SparseSoftmaxCrossEntropyWithLogits(features=wide, labels=c)

    check(loss, x, bias, labels)


def test_infinities_and_nan() -> None:
    x = np.array([[0, -np.inf, 1], [1, 2, 3], [np.inf, 0, 0], [np.nan, 0, 0]], F32)
    labels = np.array([[0.5, 0, 0.5], [1, 0, 0], [1, 0, 0], [1, 0, 0]], F32)
    check(lambda a, b: R.SoftmaxCrossEntropyWithLogits(features=a, labels=b), x, labels)
    for label in range(3):
        sparse = np.full(4, label, np.int64)
        check(lambda a, b: R.SparseSoftmaxCrossEntropyWithLogits(features=a, labels=b), x, sparse)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_a_label_out_of_range_gives_nan_in_its_row_only(index: Any, dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(dtype)
    labels = np.array([1, 3, -1, 2], index)
    bad = np.array([False, True, True, False])
    for loss, gradient in evaluate(lambda a, b: R.SparseSoftmaxCrossEntropyWithLogits(features=a, labels=b), x, labels):
        np.testing.assert_array_equal(np.isnan(loss.astype(F32)), bad)
        np.testing.assert_array_equal(np.isnan(gradient.astype(F32)), np.repeat(bad[:, None], 3, axis=1))


def test_an_empty_batch() -> None:
    x = np.zeros((0, 3), F32)
    check(lambda a, b: R.SoftmaxCrossEntropyWithLogits(features=a, labels=b), x, x)
    check(lambda a, b: R.SparseSoftmaxCrossEntropyWithLogits(features=a, labels=b), x, np.zeros(0, np.int32))
    check_rounded(lambda a, b: R.SoftmaxCrossEntropyWithLogits(features=a, labels=b), x.astype(BF16), x.astype(BF16))
