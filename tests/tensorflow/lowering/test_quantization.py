"""Fake quantization against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, arrays, check, quick, reference, refusal
from hypothesis import example, given
from hypothesis import strategies as st

raw = tf.raw_ops

RANGES = st.tuples(st.floats(-5, 3, width=32), st.floats(0.125, 6, width=32)).map(lambda r: (r[0], r[0] + r[1]))
"""(min, max), with 0 below, within and above."""
WORDS = st.tuples(st.integers(2, 16), st.booleans())
"""(num_bits, narrow_range)"""


def fake(bits, narrow):
    def fn(x, low, high):
        return raw.FakeQuantWithMinMaxVars(inputs=x, min=low, max=high, num_bits=bits, narrow_range=narrow)

    return fn


def gradient(bits, narrow):
    def fn(g, x, low, high):
        return raw.FakeQuantWithMinMaxVarsGradient(
            gradients=g, inputs=x, min=low, max=high, num_bits=bits, narrow_range=narrow
        )

    return fn


@quick
@given(arrays(F32, low=-6, high=9), RANGES, WORDS)
@example(np.array([-np.inf, np.inf, -0.0, 0.3, 7], F32), (-1.0, 1.0), (8, False))
@example(np.linspace(-2, 2, 64, dtype=F32), (-1.0, 1.0), (2, False))
@example(np.linspace(-2, 2, 64, dtype=F32), (-1.6, 1.4), (2, False))
@example(np.linspace(-2, 2, 64, dtype=F32), (-1.0, 1.0), (2, True))
@example(np.linspace(-1, 1, 64, dtype=F32), (0.0, 0.0), (8, False))
def test_fake_quant(x, bounds, word):
    check(fake(*word), x, *map(np.float32, bounds))


@quick
@given(arrays(F32, low=-6, high=9), RANGES, WORDS, st.data())
@example(np.array([-2, -1, 0, 1, 2], F32), (0.0, 0.0), (8, False), None)
def test_fake_quant_gradient(x, bounds, word, data):
    g = np.ones_like(x) if data is None else data.draw(arrays(F32, st.just(x.shape)))
    check(gradient(*word), g, x, *map(np.float32, bounds), atol=1e-4)


def test_zero_is_among_the_numbers():
    """What the oracle promises, so that a test of both is one of the op and not of two equal mistakes."""
    x = np.zeros(1, F32)
    for low, high in ((-1.3, 2.9), (0.7, 4.0), (-4.0, -0.7)):
        assert reference(fake(8, False), x, F32.type(low), F32.type(high))[0] == 0
        check(fake(8, False), x, F32.type(low), F32.type(high))


@pytest.mark.parametrize("bits", [1, 17])
def test_other_numbers_of_bits_are_refused(bits):
    one = F32.type(1)
    assert "between 2 and 16" in refusal(fake(bits, False), np.zeros(3, F32), -one, one)


def test_ranges_are_single_numbers():
    said = refusal(fake(8, False), np.zeros(3, F32), np.zeros(1, F32), np.ones(1, F32))
    assert "min" in said and "scalar" in said
    said = refusal(gradient(8, False), np.zeros(2, F32), np.zeros(3, F32), F32.type(0), F32.type(1))
    assert "same size" in said
