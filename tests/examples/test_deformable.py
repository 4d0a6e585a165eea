"""Bilinear sampling at moved places, as lowerings and as kernels in C: against NumPy and numerical gradients."""

from __future__ import annotations

import functools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.custom.build import build
from tests.child import on_hpu
from tests.examples.programs import EXAMPLES

sys.path.append(str(EXAMPLES / "custom_ops"))
import deformable

BF16 = tf.bfloat16.as_numpy_dtype
WRITTEN = ("lowering", "c")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
_folder = tempfile.TemporaryDirectory(prefix="habana-kernels-")


@functools.cache
def library() -> str:
    made = Path(_folder.name, "deformable.so")
    build([str(EXAMPLES / "custom_ops" / "deformable.c")], str(made), ["-O1"])
    return str(made)


@functools.cache
def op(how: str) -> Any:
    return deformable.deformable_sample if how == "lowering" else deformable.from_library(library())


def sampled(x: np.ndarray, offsets: np.ndarray, kernel: int) -> np.ndarray:
    """The definition, in float64: each pixel counts as much as it is near, by row and by column."""
    _, height, width, _ = x.shape
    i, j, tap = np.arange(height)[:, None, None], np.arange(width)[:, None], np.arange(kernel * kernel)
    row = i + tap // kernel - kernel // 2 + offsets[..., 0]
    column = j + tap % kernel - kernel // 2 + offsets[..., 1]
    near = [np.maximum(0, 1 - np.abs(np.arange(n) - at[..., None])) for n, at in ((height, row), (width, column))]
    return np.einsum("nijkh,nijkw,nhwc->nijkc", *near, x.astype(np.float64))


def numbers(seed: int, shape: tuple[int, int, int, int], kernel: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that the type holds. Places are at least an eighth away from where the slopes jump, and some are outside
    the picture."""
    rng = np.random.default_rng(seed)
    offsets = rng.integers(-3, 3, (*shape[:3], kernel * kernel, 2)) + rng.integers(1, 8, (*shape[:3], kernel**2, 2)) / 8
    return rng.normal(size=shape).astype(dtype), offsets.astype(dtype)


CASES = given(
    how=st.sampled_from(WRITTEN), seed=st.integers(0, 99),
    shape=st.tuples(*[st.integers(1, 4)] * 4), kernel=st.sampled_from([1, 2, 3]),
    dtype=st.sampled_from([np.float32, BF16]),
)  # fmt: skip
few = settings(max_examples=24, deadline=None)


@on_hpu
def test_samples_of_any_shape_and_type() -> None:
    """Eagerly. The sum is in fp32 and rounded once."""

    @few
    @CASES
    def check(how: str, seed: int, shape: tuple[int, int, int, int], kernel: int, dtype: Any) -> None:
        x, offsets = numbers(seed, shape, kernel, dtype)
        y = op(how)(tf.constant(x), tf.constant(offsets), kernel=kernel)
        assert y.device.endswith("HPU:0") and y.dtype == dtype
        exact = sampled(x, offsets.astype(np.float64), kernel)
        tolerance = 1e-5 if dtype == np.float32 else 2**-8
        np.testing.assert_allclose(tf.cast(y, tf.float64), exact, rtol=tolerance, atol=1e-5)

    check()


@on_hpu
def test_gradients_are_the_slopes_of_the_definition() -> None:
    """Numerical ones, in float64: the samples are linear in each single number, so that differences are exact."""

    @few
    @CASES
    def check(how: str, seed: int, shape: tuple[int, int, int, int], kernel: int, dtype: Any) -> None:
        x, offsets = numbers(seed, shape, kernel, dtype)
        dy = np.random.default_rng(seed + 1).normal(size=(*offsets.shape[:4], shape[3])).astype(dtype)
        places = tf.constant(x), tf.constant(offsets)
        with tf.GradientTape() as tape:
            tape.watch(places)
            y = tf.function(op(how))(*places, kernel=kernel)
        made = tape.gradient(y, places, output_gradients=tf.constant(dy))
        wide = [each.astype(np.float64) for each in (x, offsets)]
        for which, found in enumerate(made):
            assert found.dtype == dtype
            slopes = np.zeros_like(wide[which])
            for k in np.ndindex(slopes.shape):
                sums = []
                for step in (1 / 16, -1 / 16):
                    moved = [each.copy() for each in wide]
                    moved[which][k] += step
                    sums.append((sampled(moved[0], moved[1], kernel) * dy.astype(np.float64)).sum())
                slopes[k] = (sums[0] - sums[1]) / (1 / 8)
            tolerance = 1e-4 if dtype == np.float32 else 2**-8
            np.testing.assert_allclose(tf.cast(found, tf.float64), slopes, rtol=tolerance, atol=1e-4)

    check()


@on_hpu
def test_what_does_not_fit_is_said() -> None:
    for how in WRITTEN:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"offsets \[batch, height, width, 9, 2\]"):
            op(how)(tf.ones([1, 4, 4, 2]), tf.ones([1, 4, 4, 4, 2]))
