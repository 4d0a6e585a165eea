"""Colours of images against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, arrays, check, quick, refusal
from hypothesis import example, given
from hypothesis import strategies as st
from rounding import check_both

raw = tf.raw_ops
SHAPES = st.sampled_from([(3,), (4, 3), (2, 3, 4, 3), (0, 3)])
IMAGES = st.sampled_from([(1, 4, 3), (2, 3, 4, 3)])
CORNERS = np.array(np.meshgrid([0, 1], [0, 1], [0, 1]), F32).reshape(3, 8).T.copy()


@quick
@given(arrays(F32, SHAPES, low=0, high=1))
@example(CORNERS)
@example(CORNERS * F32.type(0.25))
def test_rgb_and_hsv(x):
    check_both(lambda x: raw.RGBToHSV(images=x), x)
    check_both(lambda x: raw.HSVToRGB(images=x), x)


@quick
@given(
    arrays(F32, st.sampled_from([(1, 4, 3), (2, 3, 4, 3)]), low=0, high=1),
    st.floats(-1, 1, width=32),
    st.floats(0, 3, width=32),
)
@example(CORNERS[None], 0.25, 2.0)
@example(CORNERS[None], -1.0, 0.0)
def test_hue_and_saturation(x, delta, scale):
    check(lambda x, d: raw.AdjustHue(images=x, delta=d), x, np.float32(delta), atol=5e-6)
    check(lambda x, s: raw.AdjustSaturation(images=x, scale=s), x, np.float32(scale), atol=5e-6)


@quick
@given(arrays(F32, st.sampled_from([(4, 5, 3), (2, 3, 4, 1), (2, 2, 3, 2, 3)])), st.floats(-1, 3, width=32))
def test_contrast(x, factor):
    check(lambda x, f: raw.AdjustContrastv2(images=x, contrast_factor=f), x, np.float32(factor), atol=1e-5)


@pytest.mark.parametrize("op", ["RGBToHSV", "HSVToRGB"])
def test_other_than_three_channels_are_refused(op):
    assert "3 channels" in refusal(lambda x: getattr(raw, op)(images=x), np.zeros((2, 4), F32))
