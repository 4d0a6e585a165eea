"""Local response normalization against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import BF16, F32, arrays, check, quick, refusal
from hypothesis import given
from hypothesis import strategies as st
from rounding import check_rounded

raw = tf.raw_ops


@quick
@given(st.data(), st.integers(0, 3), st.floats(0.5, 2), st.floats(0, 1), st.floats(0.25, 1))
def test_forward_and_gradient(data, radius, bias, alpha, beta):
    attrs = {"depth_radius": radius, "bias": bias, "alpha": alpha, "beta": beta}
    shape = (1, 2, 2, data.draw(st.integers(1, 6)))
    x, dy = data.draw(arrays(F32, shape)), data.draw(arrays(F32, shape))
    check(lambda x: raw.LRN(input=x, **attrs), x)
    y = raw.LRN(input=x, **attrs).numpy()
    check(lambda g, x, y: raw.LRNGrad(input_grads=g, input_image=x, output_image=y, **attrs), dy, x, y, atol=1e-5)
    check_rounded(lambda x: raw.LRN(input=x, **attrs), x.astype(BF16))


def test_other_ranks_are_refused():
    assert "rank 4" in refusal(lambda x: raw.LRN(input=x), np.zeros((2, 3), F32))


def test_a_gradient_of_another_shape_is_refused():
    x = np.ones((2, 2, 2, 3), F32)
    assert "one shape" in refusal(lambda g, x: raw.LRNGrad(input_grads=g, input_image=x, output_image=x), x[:1], x)
