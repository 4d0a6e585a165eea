"""Fused batch normalization and its gradient, with exactly the outputs of TensorFlow's CPU kernels.

x[N, .., C] may be bfloat16; everything per channel is float32 (V2 and V3) and so is all arithmetic.

    training    mean, variance over all but C (two passes);
                y = (x - mean) * (rsqrt(variance + epsilon) * scale) + offset;
                batch_mean, batch_variance: the statistics, the variance with Bessel's correction, mixed with the
                old ones by exponential_avg_factor; reserve 1 and 2: mean and uncorrected variance; reserve 3: empty
    inference   mean and variance are the inputs, and are handed through in all four places

An empty batch has NaN statistics and zero reserves, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.channels import channels_last
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op


def _channels(c: Lowering, x: Node) -> tuple[list[int], Term | float]:
    """The axes that statistics run over, and how many elements that is."""
    c.require(x.rank in (4, 5), "an input of rank 4 or 5 is needed")
    axes = list(range(x.rank - 1))
    return axes, Term(c.b, x).count(axes)


def _check_channels(c: Lowering, x: Node, names: Sequence[str]) -> None:
    """Each of these inputs has one value per channel."""
    for name in names:
        if c.input(name).shape != x.shape[-1:]:
            raise c.error(f"{name} must have one value for each of the {x.shape[-1]} channels")


def _at_least_one(count: Term | float) -> Term | float:
    return count.max(1.0) if isinstance(count, Term) else max(count, 1.0)


@op("FusedBatchNorm", generic="channels", T=(DType.F32,))
@op("FusedBatchNormV2", "FusedBatchNormV3", generic="channels", T=FLOATS, U=(DType.F32,))
@channels_last("x")
def fused_batch_norm(c: Lowering) -> list[Node]:
    b, x = c.b, c.inputs[0]
    scale, offset, old_mean, old_variance = (wrap(b, n) for n in c.inputs[1:5])
    axes, count = _channels(c, x)
    mixed = not c.attr("is_training", True) or c.attr("exponential_avg_factor", 1.0) != 1.0
    _check_channels(c, x, ("scale", "offset", "mean", "variance") if mixed else ("scale", "offset"))
    wide = wrap(b, x)
    if not c.attr("is_training", True):
        mean, variance = old_mean, old_variance
        kept = [mean, variance, mean, variance]
    else:
        mean = (wide.sum(axes) / _at_least_one(count)).flat(axes)
        away = wide - mean
        variance = ((away * away).sum(axes) / _at_least_one(count)).flat(axes)
        factor = c.attr("exponential_avg_factor", 1.0)
        batch_mean, batch_variance = mean, variance * (count / _at_least_one(count - 1.0))
        if factor != 1.0:
            batch_mean = old_mean * (1.0 - factor) + batch_mean * factor
            batch_variance = old_variance * (1.0 - factor) + batch_variance * factor
        kept = [batch_mean, batch_variance, mean, variance]
    if count == 0:
        nan, zero = (Term(b, b.const(v, DType.F32, x.shape[-1:])) for v in (float("nan"), 0.0))
        kept = [nan, nan, zero, zero]
    y = (wide - mean) * ((variance + c.attr("epsilon")).map("rsqrt") * scale) + offset
    empty = [b.const(0, DType.F32, (0,))] if c.op == "FusedBatchNormV3" else []
    return [y.done(x.dtype), *(k.node for k in kept), *empty]


@op("FusedBatchNormGrad", T=(DType.F32,))
@op("FusedBatchNormGradV2", "FusedBatchNormGradV3", T=FLOATS, U=(DType.F32,))
@channels_last("y_backprop", "x")
def fused_batch_norm_gradient(c: Lowering) -> list[Node]:
    """With s = rsqrt(variance + epsilon), d = x - mean; in training
    dx = scale * s * (dy - mean(dy) - d * s^2 * mean(dy * d)), in inference dx = scale * s * dy."""
    b, x = c.b, c.inputs[1]
    dy, wide, scale, mean, variance = (wrap(b, n) for n in c.inputs[:5])
    axes, count = _channels(c, x)
    c.require(c.inputs[0].shape == x.shape, "y_backprop must have the shape of x")
    _check_channels(c, x, ("scale", "reserve_space_1", "reserve_space_2"))
    inverse = (variance + c.attr("epsilon")).map("rsqrt")
    away = wide - mean
    d_offset = dy.sum(axes).flat(axes)
    projection = (dy * away).sum(axes).flat(axes)
    if c.attr("is_training", True):
        n = _at_least_one(count)
        centred = dy - d_offset / n - away * (inverse * inverse * (projection / n))
    else:
        centred = dy
    dx = centred * (scale * inverse)
    zero = b.const(0, DType.F32)
    return [dx.done(x.dtype), (projection * inverse).node, d_offset.node, zero, zero]
