"""`habana_ops`: Habana's raw ops whose meaning is known, over TensorFlow's.

Habana's: the ops that its bridge added to TensorFlow, as Python functions; on a card each is one kernel.
Here: functions of the same names and arguments, each a handful of TensorFlow ops that the graph compiler fuses, so they
run on any device and have gradients like any other function. Statistics are computed in fp32 whatever the element type
of the input.

Names whose arguments are all that is known of them (`habana_correlation_grad`, ...) are an error
that says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from habana_frameworks.tensorflow.ops.pyramid_roi_align import pyramid_roi_align, pyramid_roi_align_grad_images

__all__ = [
    "habana_gelu",
    "habana_gelu_grad",
    "habana_instance_norm",
    "habana_instance_norm_grad",
    "habana_layer_norm",
    "habana_layer_norm_grad",
    "pyramid_roi_align",
    "pyramid_roi_align_grad_images",
]

_TANH_SCALE, _TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715
"""Of the approximation by a hyperbolic tangent (Hendrycks and Gimpel, arXiv 1606.08415)."""

_UNKNOWN = ("habana_correlation", "habana_correlation_grad")


def __getattr__(name: str) -> Any:
    if name in _UNKNOWN:
        raise AttributeError(f"habana_ops.{name} is not available: what it computes exactly is not published")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def habana_layer_norm(
    x: Any, beta: Any, gamma: Any, axes: Any, epsilon: Any, name: str | None = None
) -> tuple[Any, Any, Any]:
    """Layer normalization: (y, mean, istd), y = (x - mean) * istd * gamma + beta, istd = 1 / sqrt(variance + epsilon).

    axes: the axes that are normalized over, as a number, a list, an array, a constant tensor or a TensorProto: Habana's
    op has them as an attribute, so scripts hand over `tf.make_tensor_proto(...)`. epsilon: a number, in the same forms.
    beta, gamma: of the shape of those axes (or flat), scalars, or of x's rank. mean, istd: at least fp32, with size 1
    on `axes`. y: of the type of x.
    """
    import tensorflow as tf

    with tf.name_scope(name or "HabanaLayerNorm"):
        x = tf.convert_to_tensor(x)
        over = _axes(axes, x.shape.rank)
        centered, mean, istd = _moments(x, over, epsilon)
        y = centered * istd * _param(gamma, over, x) + _param(beta, over, x)
        return tf.cast(y, x.dtype), mean, istd


def habana_layer_norm_grad(
    x: Any, grad_in: Any, mean: Any, istd: Any, gamma: Any, epsilon: Any, axes: Any, name: str | None = None
) -> tuple[Any, Any, Any]:
    """The gradients of `habana_layer_norm`'s y: (with respect to x, to beta, to gamma).

    mean, istd: as the forward op gave them (epsilon is in istd). The gradients of beta and gamma have gamma's shape.
    """
    import tensorflow as tf

    with tf.name_scope(name or "HabanaLayerNormGrad"):
        x = tf.convert_to_tensor(x)
        gamma = tf.convert_to_tensor(gamma)
        over = _axes(axes, x.shape.rank)
        dx, by_beta, by_gamma = _gradients(x, grad_in, mean, istd, _param(gamma, over, x), over)
        shape = _param_shape(gamma, over, x)
        beta_gradient, gamma_gradient = (tf.reshape(_summed_to(g, shape), tf.shape(gamma)) for g in (by_beta, by_gamma))
        return dx, tf.cast(beta_gradient, gamma.dtype), tf.cast(gamma_gradient, gamma.dtype)


def habana_instance_norm(
    input: Any, beta: Any, gamma: Any, epsilon: Any, name: str | None = None
) -> tuple[Any, Any, Any, Any, Any]:
    """Instance normalization of channels-last images: (y, mean, istd, mean, variance).

    Each image and channel is normalized over all axes but the first and the last. beta, gamma: [channels]. mean, istd,
    variance: fp32, with size 1 on the axes in between. Habana's op has five outputs, of which the first three are
    known to be these; the last two are of this implementation.
    """
    import tensorflow as tf

    with tf.name_scope(name or "HabanaInstanceNorm"):
        x = tf.convert_to_tensor(input)
        over = list(range(1, x.shape.rank - 1))
        centered, mean, istd = _moments(x, over, epsilon)
        y = centered * istd * tf.cast(gamma, mean.dtype) + tf.cast(beta, mean.dtype)
        variance = tf.reduce_mean(tf.square(centered), over, keepdims=True)
        return tf.cast(y, x.dtype), mean, istd, mean, variance


def habana_instance_norm_grad(
    input: Any, grad_in: Any, gamma: Any, mean: Any, istd: Any, epsilon: Any, name: str | None = None
) -> tuple[Any, Any, Any]:
    """The gradients of `habana_instance_norm`'s y: (with respect to input, to beta, to gamma)."""
    import tensorflow as tf

    with tf.name_scope(name or "HabanaInstanceNormGrad"):
        x = tf.convert_to_tensor(input)
        gamma = tf.convert_to_tensor(gamma)
        over = list(range(1, x.shape.rank - 1))
        dx, by_beta, by_gamma = _gradients(x, grad_in, mean, istd, tf.cast(gamma, mean.dtype), over)
        all_but_channels = list(range(x.shape.rank - 1))
        beta_gradient, gamma_gradient = (tf.reduce_sum(g, all_but_channels) for g in (by_beta, by_gamma))
        return dx, tf.cast(beta_gradient, gamma.dtype), tf.cast(gamma_gradient, gamma.dtype)


def habana_gelu(data_input: Any, approximate: bool = False, name: str | None = None) -> tuple[Any, Any]:
    """The Gaussian error linear unit: (y, t), y = x / 2 * (1 + t), both of x's shape and type.

    t: the error function of x / sqrt(2), or with `approximate` its approximation by a hyperbolic tangent, as in
    `tf.nn.gelu`; the gradient op takes it from here.
    """
    import tensorflow as tf

    with tf.name_scope(name or "HabanaGelu"):
        x = tf.convert_to_tensor(data_input)
        if approximate:
            t = tf.tanh(tf.cast(_TANH_SCALE, x.dtype) * (x + tf.cast(_TANH_CUBIC, x.dtype) * tf.pow(x, 3)))
        else:
            t = tf.math.erf(x / tf.cast(math.sqrt(2), x.dtype))
        return tf.cast(0.5, x.dtype) * x * (tf.cast(1, x.dtype) + t), t


def habana_gelu_grad(grad_input: Any, input: Any, tanh: Any, approximate: bool = False, name: str | None = None) -> Any:
    """The gradient of `habana_gelu`'s y with respect to its input. tanh: t, as the forward op gave it."""
    import tensorflow as tf

    with tf.name_scope(name or "HabanaGeluGrad"):
        x = tf.convert_to_tensor(input)
        wide = tf.cast(x, _wide(x.dtype))
        t, dy = (tf.cast(each, wide.dtype) for each in (tanh, grad_input))
        if approximate:
            slope = (1 - t * t) * _TANH_SCALE * (1 + 3 * _TANH_CUBIC * wide * wide)
        else:
            slope = math.sqrt(2 / math.pi) * tf.exp(-0.5 * wide * wide)
        return tf.cast(dy * 0.5 * (1 + t + wide * slope), x.dtype)


def _constant(value: Any, what: str) -> Any:
    """The value of an attribute as an array: Habana's ops take a TensorProto for one, ours also what stands for it.

    Raises ValueError when it is not known while the graph is made.
    """
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2

    if isinstance(value, tensor_pb2.TensorProto):
        return tf.make_ndarray(value)
    if isinstance(value, (list, tuple)):
        return np.array([_constant(each, what) for each in value])
    known = tf.get_static_value(value) if tf.is_tensor(value) else np.asarray(value)
    if known is None:
        raise ValueError(
            f"habana_ops: the {what} must be known when the graph is made: give numbers, a constant or a TensorProto, "
            f"not {value!r}"
        )
    return known


def _axes(axes: Any, rank: int) -> list[int]:
    """The axes as sorted numbers from 0. Raises ValueError if they are not known yet, or are not x's."""
    numbers = [int(axis) for axis in _constant(axes, "axes").ravel()]
    if any(not -rank <= axis < rank for axis in numbers):
        raise ValueError(f"habana_ops: axes {numbers} are not all among the {rank} of the input")
    return sorted({axis % rank for axis in numbers})


def _wide(dtype: Any) -> Any:
    """The type that statistics are computed in: at least fp32."""
    import tensorflow as tf

    return tf.float32 if dtype in (tf.bfloat16, tf.float16) else dtype


def _moments(x: Any, over: Sequence[int], epsilon: Any) -> tuple[Any, Any, Any]:
    """x less its mean, the mean, and the inverse standard deviation, in at least fp32."""
    import tensorflow as tf

    wide = tf.cast(x, _wide(x.dtype))
    mean = tf.reduce_mean(wide, over, keepdims=True)
    centered = wide - mean
    variance = tf.reduce_mean(tf.square(centered), over, keepdims=True)
    return centered, mean, tf.math.rsqrt(variance + tf.cast(_scalar(epsilon), wide.dtype))


def _scalar(epsilon: Any) -> Any:
    """A number that may be a tensor (known or not), an array of one or a TensorProto."""
    import tensorflow as tf

    return tf.reshape(epsilon if tf.is_tensor(epsilon) else _constant(epsilon, "epsilon"), [])


def _param_shape(param: Any, over: Sequence[int], x: Any) -> list[int]:
    """The shape in which a parameter broadcasts with x: its extents on the axes in `over`, else 1."""
    extents, rank = param.shape.as_list(), x.shape.rank
    if len(extents) == len(over):
        of = dict(zip(over, extents, strict=True))
        return [of.get(axis, 1) for axis in range(rank)]
    if len(extents) == rank or not extents:
        return extents or [1] * rank
    if len(extents) == 1:  # all axes in one
        return [x.shape[axis] if axis in over else 1 for axis in range(rank)]
    raise ValueError(f"habana_ops: a parameter of shape {extents} does not fit axes {list(over)} of {x.shape}")


def _param(param: Any, over: Sequence[int], x: Any) -> Any:
    import tensorflow as tf

    param = tf.convert_to_tensor(param)
    return tf.cast(tf.reshape(param, _param_shape(param, over, x)), _wide(x.dtype))


def _gradients(x: Any, grad_in: Any, mean: Any, istd: Any, gamma: Any, over: Sequence[int]) -> tuple[Any, Any, Any]:
    """dx, and what is to be summed up for beta and gamma. All of the shape of x."""
    import tensorflow as tf

    dy = tf.cast(grad_in, mean.dtype)
    normal = (tf.cast(x, mean.dtype) - mean) * istd
    scaled = dy * gamma
    inner = scaled - tf.reduce_mean(scaled, over, keepdims=True)
    dx = istd * (inner - normal * tf.reduce_mean(scaled * normal, over, keepdims=True))
    return tf.cast(dx, x.dtype), dy, dy * normal


def _summed_to(value: Any, shape: Sequence[int]) -> Any:
    """The sum over the axes where a parameter of this shape was broadcast."""
    import tensorflow as tf

    return tf.reduce_sum(value, [axis for axis, extent in enumerate(shape) if extent == 1], keepdims=True)
