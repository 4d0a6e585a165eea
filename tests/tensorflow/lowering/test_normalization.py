"""Fused batch normalization and its gradient against stock TensorFlow on the CPU, all outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, check, quick, refusal
from hypothesis import given
from hypothesis import strategies as st
from rounding import check_both, check_rounded

R = tf.raw_ops
SHAPES = st.tuples(*[st.integers(1, 4)] * 4)


def normal(shape: Any, seed: int) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(F32).astype(BF16).astype(F32)


def channel_values(n: int) -> list[Any]:
    """scale, offset, mean and variance."""
    return [normal((n,), 1), normal((n,), 2), normal((n,), 3), np.abs(normal((n,), 4)) + F32.type(0.5)]


@quick
@given(SHAPES, st.booleans(), st.sampled_from([1.0, 0.25]), st.sampled_from([1e-3, 0.1]))
def test_forward(shape: Any, training: bool, factor: float, epsilon: float) -> None:
    """Tolerance: one channel of one element has variance 0, and rsqrt(epsilon) is then a factor of 30."""
    x = normal(shape, 0) + F32.type(0.5)
    attrs = {"epsilon": epsilon, "exponential_avg_factor": factor, "is_training": training}

    def fn(x: Any, s: Any, o: Any, m: Any, v: Any) -> Any:
        return R.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v, **attrs)

    check(fn, x, *channel_values(shape[-1]), rtol=1e-4, atol=3e-5)
    check_rounded(fn, x.astype(BF16), *channel_values(shape[-1]), rtol=1e-4, atol=3e-5)


@quick
@given(SHAPES, st.booleans())
def test_gradient(shape: Any, training: bool) -> None:
    x, dy = normal(shape, 0), normal(shape, 5)
    scale, _, mean, variance = channel_values(shape[-1])
    if training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    empty = np.zeros(0, F32)

    def fn(g: Any, x: Any, s: Any, m: Any, v: Any, e: Any) -> Any:
        return R.FusedBatchNormGradV3(
            y_backprop=g, x=x, scale=s, reserve_space_1=m, reserve_space_2=v, reserve_space_3=e,
            epsilon=1e-3, is_training=training,
        )  # fmt: skip

    check(fn, dy, x, scale, mean, variance, empty, rtol=1e-4, atol=1e-4)
    check_rounded(fn, dy.astype(BF16), x.astype(BF16), scale, mean, variance, empty, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("forward", "gradient"),
    [(R.FusedBatchNorm, R.FusedBatchNormGrad), (R.FusedBatchNormV2, R.FusedBatchNormGradV2)],
    ids=["first", "second"],
)
def test_earlier_versions(forward: Any, gradient: Any) -> None:
    x, (scale, offset, mean, variance) = normal((2, 3, 3, 4), 0), channel_values(4)
    for training in (True, False):
        check(
            lambda x, s, o, m, v, t=training: forward(x=x, scale=s, offset=o, mean=m, variance=v, is_training=t),
            x, scale, offset, mean, variance, rtol=1e-4, atol=1e-5,
        )  # fmt: skip
        check(
            lambda g, x, s, m, v, t=training: gradient(
                y_backprop=g, x=x, scale=s, reserve_space_1=m, reserve_space_2=v, is_training=t
            ),
            normal(x.shape, 5), x, scale, x.mean((0, 1, 2)), x.var((0, 1, 2)), rtol=1e-4, atol=1e-4,
        )  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(0, 3, 3, 4), (2, 3, 3, 0)])
def test_nothing_to_normalize(shape: Any, training: bool) -> None:
    x, values = np.zeros(shape, F32), channel_values(shape[-1])
    check(
        lambda x, s, o, m, v: R.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v, is_training=training),
        x, *values,
    )  # fmt: skip


def test_old_statistics_may_be_empty_in_training() -> None:
    """Keras and TF1 pass empty tensors where nothing is mixed in."""
    x, (scale, offset, _, _) = normal((2, 3, 3, 4), 0), channel_values(4)
    empty = np.zeros(0, F32)
    check_both(
        lambda x: R.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=empty, variance=empty, is_training=True)[:3],
        x, rtol=1e-4, atol=2e-5,
    )  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_values_of_another_number_than_the_channels_are_refused(training: bool, size: int) -> None:
    x = normal((2, 3, 3, 4), 0)
    forward = ["scale", "offset", "mean", "variance"]
    backward = ["scale", "reserve_space_1", "reserve_space_2"]
    for name in forward:
        values = {n: np.ones(size if n == name else 4, F32) for n in forward}
        message = refusal(
            lambda x, *v: R.FusedBatchNormV3(
                x=x, **dict(zip(forward, v, strict=True)), is_training=training, exponential_avg_factor=0.5
            ),
            x, *values.values(),
        )  # fmt: skip
        assert f"{name} must have one value for each of the 4 channels" in message
    for name in backward:
        values = {n: np.ones(size if n == name else 4, F32) for n in backward}
        message = refusal(
            lambda g, x, *v: R.FusedBatchNormGradV2(
                y_backprop=g, x=x, **dict(zip(backward, v, strict=True)), is_training=training
            ),
            x, x, *values.values(),
        )  # fmt: skip
        assert f"{name} must have one value for each of the 4 channels" in message
    assert "shape of x" in refusal(
        lambda g, x, s: R.FusedBatchNormGradV2(y_backprop=g, x=x, scale=s, reserve_space_1=s, reserve_space_2=s),
        x[:1], x, np.ones(4, F32),
    )  # fmt: skip
