"""Resizing of images and its gradients against stock TensorFlow on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, check, quick, refusal
from hypothesis import example, given
from hypothesis import strategies as st
from rounding import check_rounded

R = tf.raw_ops
WAYS = [{}, {"align_corners": True}, {"half_pixel_centers": True}]


def normal(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(F32)


@st.composite
def sizes(draw: Any) -> tuple[list[int], list[int]]:
    return [[draw(st.integers(1, 9)) for _ in range(2)] for _ in range(2)]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", ["NearestNeighbor", "Bilinear"])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_forward_and_gradient(kind: str, dtype: Any, way: dict[str, bool]) -> None:
    forward, backward = getattr(R, f"Resize{kind}"), getattr(R, f"Resize{kind}Grad")

    @quick
    @given(sizes())
    @example(([3, 4], [6, 8]))
    @example(([3, 4], [9, 4]))
    @example(([8, 6], [4, 3]))
    def compare(case: tuple[list[int], list[int]]) -> None:
        size, wanted = case
        x = normal(2, *size, 3).astype(dtype)
        check_rounded(lambda x, s: forward(images=x, size=s, **way), x, np.int32(wanted), atol=1e-5)
        dy = normal(2, *wanted, 3)
        if kind == "Bilinear":
            check_rounded(lambda dy, x: backward(grads=dy, original_image=x, **way), dy, x, atol=1e-5)
        else:
            check_rounded(lambda dy, s: backward(grads=dy, size=s, **way), dy.astype(dtype), np.int32(size), atol=1e-5)

    compare()


def test_integers() -> None:
    x = np.arange(2 * 3 * 4 * 2, dtype=np.uint8).reshape(2, 3, 4, 2)
    for wanted in ([6, 8], [2, 5]):
        check(lambda x, s: R.ResizeNearestNeighbor(images=x, size=s), x, np.int32(wanted))
        check(lambda x, s: R.ResizeBilinear(images=x, size=s), x, np.int32(wanted), atol=1e-4)


def test_refusals() -> None:
    x = normal(1, 2, 2, 1)
    assert "positive" in refusal(lambda x, s: R.ResizeBilinear(images=x, size=s), x, np.int32([0, 3]))
    assert "rank 4" in refusal(lambda x, s: R.ResizeBilinear(images=x, size=s), x[0], np.int32([3, 3]))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_bicubic_and_gradient(way: dict[str, bool]) -> None:
    @quick
    @given(sizes())
    @example(([3, 4], [1, 8]))
    def compare(case: tuple[list[int], list[int]]) -> None:
        size, wanted = case
        x, dy = normal(2, *size, 3), normal(2, *wanted, 3)
        given_size = np.array(wanted, np.int32)
        check(lambda x, s: R.ResizeBicubic(images=x, size=s, **way), x, given_size, atol=1e-5)
        check(lambda x, s: R.ResizeBicubic(images=x, size=s, **way), (x * 9).astype(np.int32), given_size, atol=1e-4)
        check(lambda g, x: R.ResizeBicubicGrad(grads=g, original_image=x, **way), dy, x, atol=1e-5)

    compare()


@pytest.mark.parametrize("way", WAYS[:2], ids=str)
def test_area(way: dict[str, bool]) -> None:
    @quick
    @given(sizes())
    def compare(case: tuple[list[int], list[int]]) -> None:
        size, wanted = case
        check(lambda x, s: R.ResizeArea(images=x, size=s, **way), normal(2, *size, 3), np.array(wanted, np.int32),
              atol=1e-5)  # fmt: skip

    compare()
