"""Patches of images against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import BF16, F32, check, quick
from hypothesis import assume, given
from hypothesis import strategies as st

raw = tf.raw_ops
SIZES = st.tuples(*[st.integers(1, 3)] * 2)


@quick
@given(st.tuples(*[st.integers(1, 6)] * 2), SIZES, SIZES, SIZES, st.sampled_from(["SAME", "VALID"]))
def test_image_patches(size, kernel, stride, rate, padding):
    spans = [(k - 1) * r + 1 for k, r in zip(kernel, rate, strict=True)]
    assume(padding == "SAME" or all(n >= s for n, s in zip(size, spans, strict=True)))
    x = np.arange(2 * size[0] * size[1] * 3, dtype=F32).reshape(2, *size, 3)
    attrs = {"ksizes": [1, *kernel, 1], "strides": [1, *stride, 1], "rates": [1, *rate, 1], "padding": padding}
    for dtype in (F32, BF16, np.dtype("int32")):
        check(lambda x: raw.ExtractImagePatches(images=x, **attrs), x.astype(dtype))


@quick
@given(st.tuples(*[st.integers(2, 4)] * 3), st.tuples(*[st.integers(1, 2)] * 3), st.sampled_from(["SAME", "VALID"]))
def test_volume_patches(size, kernel, padding):
    x = np.arange(np.prod(size) * 2, dtype=F32).reshape(1, *size, 2)
    attrs = {"ksizes": [1, *kernel, 1], "strides": [1, 1, 2, 1, 1], "padding": padding}
    check(lambda x: raw.ExtractVolumePatches(input=x, **attrs), x)


def test_the_gradient_of_patches():
    x = np.arange(2 * 5 * 4 * 2, dtype=F32).reshape(2, 5, 4, 2) / F32.type(9)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.image.extract_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 1, 1], "SAME")
            total = tf.reduce_sum(y * y)
        return tape.gradient(total, x)

    check(gradient, x)
