"""Special functions against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import BF16, F32, arrays, broadcastable, check, quick
from hypothesis import example, given
from hypothesis import strategies as st
from rounding import check_rounded

raw = tf.raw_ops
POLES = np.array([0, -0.0, -1, -2, 1, 0.5, -0.5, -1.5, 1e5, 1e9], F32)


@quick
@given(arrays(F32, low=-6, high=30))
@example(POLES)
def test_digamma(x):
    """Beside its zero at 1.46 and in the reflection it is a difference of terms of about 3."""
    check(lambda x: raw.Digamma(x=x), x, atol=1e-5 * max(1.0, float(np.abs(x).max(initial=0))))
    check_rounded(lambda x: raw.Digamma(x=x), np.abs(x).astype(BF16), atol=1e-4)


@quick
@given(arrays(F32, low=0, high=1))
@example(np.array([0, 1, 2, -1, 1e-6, 1e-30, 0.9999999, 0.1353, 0.1354, np.nan], F32))
def test_ndtri(p):
    check(lambda p: raw.Ndtri(x=p), p)
    check_rounded(lambda p: raw.Ndtri(x=p), p.astype(BF16))


@quick
@given(arrays(F32, low=-1, high=1))
@example(np.array([1, -1, 2, 0.999, -0.5, np.nan], F32))
def test_erfinv(x):
    check(lambda x: raw.Erfinv(x=x), x)
    check_rounded(lambda x: raw.Erfinv(x=x), (x * F32.type(0.9)).astype(BF16))


@quick
@given(broadcastable(F32, low=0.125, high=30))
@example((np.array([1, 0.5, 2, 3, 2.5, 2, 60], F32), np.array([1, 1, 0, -2, -0.5, -1.3, 1.5], F32)))
def test_zeta(pair):
    x, q = pair
    check(lambda x, q: raw.Zeta(x=x, q=q), x + F32.type(1), q)
    check(lambda x, q: raw.Zeta(x=x, q=q), x, q)


@quick
@given(st.data(), st.integers(0, 4))
def test_polygamma(data, order):
    x = data.draw(arrays(F32, low=0.125, high=20))
    for n in (order, -1, order + 0.5):
        check(lambda n, x: raw.Polygamma(a=n, x=x), np.array(n, F32), x, rtol=3e-5, atol=1e-5)


def test_the_gradient_of_lgamma_twice():
    """lgamma, digamma and trigamma are the gradients of each other."""
    x = np.linspace(0.25, 9, 36, dtype=F32)

    def slopes(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.math.lgamma(x)
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    check(slopes, x, rtol=2e-5, atol=1e-5)
