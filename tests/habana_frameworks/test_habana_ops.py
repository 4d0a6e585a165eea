"""Habana's raw ops against Keras' layers and TensorFlow's own gradients, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_frameworks.tensorflow import habana_ops

F32, BF16 = tf.float32, tf.bfloat16


@st.composite
def layer_cases(draw: Any) -> tuple[Any, ...]:
    """(x, gamma, beta, axes, incoming gradient): parameters in the shape of the axes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    first = draw(st.integers(0, len(shape) - 1))
    axes = list(range(first, len(shape)))
    given = [axis - len(shape) for axis in axes] if draw(st.booleans()) else axes
    params = [shape[axis] for axis in axes]
    normal = [rng.normal(size=s).astype("f4") for s in (shape, params, params, shape)]
    return normal[0] * 3 + 1, normal[1], normal[2], given, normal[3]


def by_hand(x: Any, gamma: Any, beta: Any, axes: list[int], epsilon: float) -> tuple[Any, Any, Any]:
    """The definition, in float64 with NumPy."""
    x = x.astype("f8")
    mean = x.mean(tuple(axes), keepdims=True)
    istd = 1 / np.sqrt(x.var(tuple(axes), keepdims=True) + epsilon)
    return (x - mean) * istd * gamma + beta, mean, istd


@given(layer_cases())
@settings(max_examples=60, deadline=None)
def test_layer_norm_and_its_gradient(case: tuple[Any, ...]) -> None:
    x, gamma, beta, axes, dy = case
    expected = by_hand(x, gamma, beta, axes, 1e-3)
    variables = [tf.constant(v) for v in (x, beta, gamma)]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        y, mean, istd = habana_ops.habana_layer_norm(*variables, tf.constant(axes), 1e-3)
    for got, want in zip((y, mean, istd), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-5)
    stock = tape.gradient(y, variables, output_gradients=tf.constant(dy))
    got = habana_ops.habana_layer_norm_grad(x, dy, mean, istd, gamma, 1e-3, axes)
    # eps * |dy| * istd, and istd is at most 1 / sqrt(1e-3) = 32
    for mine, theirs in zip(got, stock, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-4)


def _spellings(number: Any) -> list[Any]:
    """The ways in which scripts give an attribute: numbers, arrays, constants, protos."""
    constants = [tf.constant(number), tf.constant([number]), np.array([number]), (number,), [tf.constant(number)]]
    protos = [tf.make_tensor_proto(number), tf.make_tensor_proto([number]), tf.make_tensor_proto(np.array([number]))]
    return [number, *constants, *protos]


@pytest.mark.parametrize("how", [lambda f: f, tf.function], ids=["eager", "function"])
def test_attributes_in_every_spelling(how: Any) -> None:
    """Habana's scripts hand over TensorProtos, as their op's attributes were of that type."""
    ops, x = habana_ops, tf.constant(np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f4"))
    gamma, beta = tf.constant([1.0, 2, 3, 4]), tf.constant([0.0, 1, 0, 1])
    want = ops.habana_layer_norm(x, beta, gamma, [2], 1e-2)
    instance = ops.habana_instance_norm(x, beta, gamma, 1e-2)

    def along(axes: Any) -> None:
        for got, expected in zip(how(lambda: ops.habana_layer_norm(x, beta, gamma, axes, 1e-2))(), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        grads = how(lambda: ops.habana_layer_norm_grad(x, x, want[1], want[2], gamma, 1e-2, axes))()
        assert [g.shape for g in grads] == [x.shape, beta.shape, gamma.shape]

    def with_epsilon(epsilon: Any) -> None:
        got = how(lambda: ops.habana_layer_norm(x, beta, gamma, 2, epsilon))()
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-6)
        got = how(lambda: ops.habana_instance_norm(x, beta, gamma, epsilon))()
        np.testing.assert_allclose(got[0], instance[0], rtol=1e-5, atol=1e-6)

    for axes in [*_spellings(2), *_spellings(-1)]:
        along(axes)
    for epsilon in _spellings(1e-2):
        with_epsilon(epsilon)


def test_axes_that_are_known_too_late_or_are_not_there() -> None:
    x = tf.zeros([2, 3])
    late = tf.function(lambda axes: habana_ops.habana_layer_norm(x, 0.0, 1.0, axes, 1e-3)[0])
    with pytest.raises(
        ValueError, match="must be known when the graph is made: give numbers, a constant or a TensorPr"
    ):
        late(tf.constant([1]))
    with pytest.raises(ValueError, match=r"axes \[2\] are not all among the 2 of the input"):
        habana_ops.habana_layer_norm(x, 0.0, 1.0, tf.make_tensor_proto(2), 1e-3)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_and_its_gradient(approximate: bool) -> None:
    x = tf.constant(np.concatenate([np.linspace(-8, 8, 401), [0.0, -0.0]]).astype("f4"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        want = tf.nn.gelu(x, approximate)
    y, t = habana_ops.habana_gelu(data_input=x, approximate=approximate)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)  # the same terms in TensorFlow's order
    got = habana_ops.habana_gelu_grad(grad_input=tf.ones_like(x), input=x, tanh=t, approximate=approximate)
    np.testing.assert_allclose(got, tape.gradient(want, x), rtol=1e-5, atol=1e-5)
    wide = tf.cast(x, BF16)
    y, t = habana_ops.habana_gelu(wide, approximate)
    assert y.dtype == t.dtype == BF16
    assert habana_ops.habana_gelu_grad(wide, wide, t, approximate).dtype == BF16


def test_parameters_may_be_flat_or_scalars() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f4")
    gamma = np.arange(12, dtype="f4").reshape(3, 4)
    want, mean, istd = habana_ops.habana_layer_norm(x, tf.zeros(()), gamma, [1, 2], 1e-3)
    flat, *_ = habana_ops.habana_layer_norm(x, tf.zeros(12), gamma.ravel(), [1, 2], 1e-3)
    np.testing.assert_array_equal(want, flat)
    _, db, dg = habana_ops.habana_layer_norm_grad(x, x, mean, istd, gamma.ravel(), 1e-3, [1, 2])
    np.testing.assert_allclose(db, x.sum(0).ravel(), rtol=1e-5, atol=1e-6)
    assert dg.shape == (12,)
    with pytest.raises(ValueError, match="does not fit axes"):
        habana_ops.habana_layer_norm(x, tf.zeros(()), tf.zeros((5, 2)), [2], 1e-3)


@given(st.integers(0, 99), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_instance_norm_and_its_gradient(seed: int, image: list[int], channels: int) -> None:
    rng = np.random.default_rng(seed)
    x, dy = (rng.normal(size=(2, *image, channels)).astype("f4") for _ in range(2))
    gamma, beta = (rng.normal(size=channels).astype("f4") for _ in range(2))
    axes = list(range(1, len(image) + 1))
    variables = [tf.constant(v) for v in (x, beta, gamma)]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        y, mean, istd, _, variance = habana_ops.habana_instance_norm(*variables, 1e-3)
    for got, want in zip((y, mean, istd), by_hand(x, gamma, beta, axes, 1e-3), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(variance.numpy(), x.var(tuple(axes), keepdims=True), rtol=1e-4, atol=1e-6)
    stock = tape.gradient(y, variables, output_gradients=tf.constant(dy))
    got = habana_ops.habana_instance_norm_grad(x, dy, gamma, mean, istd, 1e-3)
    for mine, theirs in zip(got, stock, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-4)


def test_statistics_of_bf16_are_fp32() -> None:
    x = tf.cast(np.linspace(100, 101, 64, dtype="f4").reshape(2, 32), BF16)
    y, mean, istd = habana_ops.habana_layer_norm(x, tf.zeros(32), tf.ones(32), [-1], 1e-3)
    assert (y.dtype, mean.dtype, istd.dtype) == (BF16, F32, F32)
    want, _, _ = by_hand(tf.cast(x, F32).numpy(), 1.0, 0.0, [1], 1e-3)
    np.testing.assert_allclose(tf.cast(y, F32).numpy(), want, rtol=2**-8, atol=1e-6)
    dx, _, _ = habana_ops.habana_layer_norm_grad(x, y, mean, istd, tf.ones(32), 1e-3, [-1])
    assert dx.dtype == BF16


def test_what_is_not_known_says_so() -> None:
    with pytest.raises(AttributeError, match="habana_correlation is not available: what it computes"):
        _ = habana_ops.habana_correlation
    with pytest.raises(AttributeError, match="no attribute 'habana_gelu_nonsense'"):
        _ = habana_ops.habana_gelu_nonsense
