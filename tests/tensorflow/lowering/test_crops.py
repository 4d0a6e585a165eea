"""Crops and projective transforms of images against stock TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, arrays, check, quick, refusal
from hypothesis import example, given
from hypothesis import strategies as st

raw = tf.raw_ops
U8 = np.dtype("uint8")


def numbers(*shape: int, high: float = 1) -> Any:
    return np.random.default_rng(shape).uniform(-1, high, shape).astype(F32)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.8, 0.7], [-0.2, 0.3, 1.2, 0.5], [0.9, 0.9, 0.1, 0.1]], F32)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_crops_and_their_gradients(method: str) -> None:
    @quick
    @given(arrays(F32, (4, 4), low=-0.5, high=1.5), st.tuples(*[st.integers(1, 4)] * 2))
    @example(BOXES, (3, 4))
    @example(BOXES, (1, 5))
    def compare(boxes: Any, crop: tuple[int, int]) -> None:
        image, which, dy = numbers(2, 5, 6, 3, high=9), i32(0, 1, 1, 0), numbers(4, *crop, 3)
        attrs = {"method": method}
        for dtype in (F32, U8):
            check(
                lambda x, b, i, s: raw.CropAndResize(image=x, boxes=b, box_ind=i, crop_size=s, extrapolation_value=0.5,
                                                     **attrs),
                np.abs(image).astype(dtype), boxes, which, i32(*crop),
            )  # fmt: skip
        check(
            lambda g, b, i, s: raw.CropAndResizeGradImage(grads=g, boxes=b, box_ind=i, image_size=s, T=tf.float32,
                                                          **attrs),
            dy, boxes, which, i32(*image.shape), atol=1e-5,
        )  # fmt: skip
        if method == "bilinear":
            check(
                lambda g, x, b, i: raw.CropAndResizeGradBoxes(grads=g, image=x, boxes=b, box_ind=i),
                dy, image, boxes, which, atol=1e-4,
            )  # fmt: skip

    compare()


def test_boxes_of_another_shape_are_refused() -> None:
    fn = lambda x, b, i, s: raw.CropAndResize(image=x, boxes=b, box_ind=i, crop_size=s)
    assert "boxes" in refusal(fn, numbers(1, 3, 3, 1), numbers(2, 3), i32(0, 0), i32(2, 2))


@pytest.mark.parametrize("mode", ["CONSTANT", "REFLECT", "WRAP", "NEAREST"])
@pytest.mark.parametrize("method", ["BILINEAR", "NEAREST"])
def test_projective_transforms(method: str, mode: str) -> None:
    """Transforms that take no element to the middle between two, where the nearest is a matter of rounding."""
    one = np.array([[0.8, 0.31, -1.3, -0.22, 1.1, 0.7, 0.01, -0.02]], F32)
    far = np.array([[1, 0, -9.3, 0, 1, 11.7, 0, 0], [0.3, 1.2, 3.4, 1.1, 0.2, -4.7, 0, 0.03]], F32)
    attrs = {"interpolation": method, "fill_mode": mode}
    for transforms in (one, far):
        for shape in ((2, 5, 6, 3), (2, 1, 4, 1)):
            x = numbers(*shape)
            check(
                lambda x, t, s, v: raw.ImageProjectiveTransformV3(images=x, transforms=t, output_shape=s, fill_value=v,
                                                                  **attrs),
                x, transforms, i32(7, 5), np.float32(0.25), atol=2e-5,
            )  # fmt: skip
            if mode != "NEAREST":
                check(
                    lambda x, t, s: raw.ImageProjectiveTransformV2(images=x, transforms=t, output_shape=s, **attrs),
                    x, transforms, i32(7, 5), atol=2e-5,
                )  # fmt: skip


def test_the_nearest_of_whole_numbers_keeps_all_their_digits() -> None:
    image, transform = np.arange(1 << 24, (1 << 24) + 12, dtype=np.int32).reshape(1, 3, 4, 1), np.eye(1, 8, dtype=F32)
    transform[0, 4] = 1
    call = lambda x, t: raw.ImageProjectiveTransformV3(
        images=x, transforms=t, output_shape=tf.constant([3, 4]), fill_value=tf.constant(0.0), interpolation="NEAREST"
    )
    check(call, image, transform)


def test_transforms_that_are_not_one_per_image_are_refused() -> None:
    fn = lambda x, t, s: raw.ImageProjectiveTransformV2(images=x, transforms=t, output_shape=s, interpolation="NEAREST")
    assert "one for each image" in refusal(fn, numbers(3, 4, 4, 1), numbers(2, 8), i32(4, 4))
