"""Batch and layer normalization with their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, overload


class _Channels:
    """Of x[N, C, ...]: the axes that statistics run over, and values of channels as terms that broadcast over x."""

    def __init__(self, c: Call, x: Node) -> None:
        self.c, self.x = c, x
        self.axes = [k for k in range(x.rank) if k != 1]
        self.count = c.term(x).count(self.axes)

    def over(self, node: Node | None, missing: float) -> Term:
        """One value per channel; a constant where there is none."""
        c, shape = self.c, [1, self.x.shape[1], *([1] * (self.x.rank - 2))]
        if node is None:
            return Term(c.b, c.b.const(missing, DType.F32, shape))
        return Term(c.b, c.b.reshape(c.b.cast(node, DType.F32), shape))

    def flat(self, t: Term) -> Node:
        return self.c.b.reshape(t.node, (self.x.shape[1],))


def _max(a: float | Term, b: float) -> float | Term:
    return a.max(b) if isinstance(a, Term) else max(a, b)


@overload("native_batch_norm", writes=["running_mean", "running_var"], runtime=["momentum"], floats=True, mixed=True)
def batch_norm(
    c: Call, x: Node, weight: Node | None, bias: Node | None, running_mean: Node | None, running_var: Node | None,
    training: bool, momentum: Operand, eps: float,
) -> list[Node | None]:  # fmt: skip
    """y, mean and 1 / sqrt(variance + eps) of the batch; then the new running statistics."""
    ch, t = _Channels(c, x), c.term(x)
    scale, shift = ch.over(weight, 1.0), ch.over(bias, 0.0)
    if not training:
        mean, variance = ch.over(running_mean, 0.0), ch.over(running_var, 1.0)
        y = (t - mean) * ((variance + eps).map("rsqrt") * scale) + shift
        unused = [c.b.const(0, DType.F32, shape) for shape, _ in c.results[1:3]]
        kept = [old for old in (running_mean, running_var) if old is not None]
        return [y.node, *unused, *kept]
    mean = t.sum(ch.axes) / ch.count
    away = t - mean
    variance = (away * away).sum(ch.axes) / ch.count
    inverse = (variance + eps).map("rsqrt")
    made: list[Node | None] = [(away * (inverse * scale) + shift).node, ch.flat(mean), ch.flat(inverse)]
    spread = variance * (ch.count / _max(ch.count - 1.0, 1.0))
    part = c.term(momentum, DType.F32)
    for old, new in ((running_mean, mean), (running_var, spread)):
        if old is not None:
            made.append(ch.flat(ch.over(old, 0.0) * (1.0 - part) + new * part))
    return made


overload(
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional", runtime=["momentum"], floats=True, mixed=True
)(batch_norm)  # fmt: skip
overload("_native_batch_norm_legit.no_stats", runtime=["momentum"], floats=True, mixed=True)(
    lambda c, x, weight, bias, *rest: batch_norm(c, x, weight, bias, None, None, *rest)
)


@overload("native_batch_norm_backward", floats=True, mixed=True)
def batch_norm_backward(
    c: Call, dy: Node, x: Node, weight: Node | None, running_mean: Node | None, running_var: Node | None,
    save_mean: Node | None, save_invstd: Node | None, train: bool, eps: float, output_mask: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    """With s = 1 / sqrt(variance + eps) and d = x - mean; in training
    dx = weight * s * (dy - mean(dy) - d * s^2 * mean(dy * d)), else dx = weight * s * dy."""
    ch = _Channels(c, x)
    grad, t = c.term(dy, DType.F32), c.term(x, DType.F32)
    if train:
        mean, inverse = ch.over(save_mean, 0.0), ch.over(save_invstd, 1.0)
    else:
        mean, inverse = ch.over(running_mean, 0.0), (ch.over(running_var, 1.0) + eps).map("rsqrt")
    away = t - mean
    added, projected = grad.sum(ch.axes), (grad * away).sum(ch.axes)
    centred = grad
    if train:
        centred = grad - added / ch.count - away * (inverse * inverse * (projected / ch.count))
    dx = (centred * (inverse * ch.over(weight, 1.0))).node
    made = [dx, ch.flat(projected * inverse), ch.flat(added)]
    return [node if wanted else None for node, wanted in zip(made, output_mask, strict=True)]


# -- over axes of one sample ------------------------------------------------------------------------------------


def _normalized(
    t: Term, axes: Sequence[int], weight: Term | None, bias: Term | None, eps: float
) -> tuple[Term, Term, Term]:
    """y, mean and 1 / sqrt(variance + eps)."""
    count = t.count(axes)
    mean = t.sum(axes) / count
    away = t - mean
    inverse = ((away * away).sum(axes) / count + eps).map("rsqrt")
    y = away * inverse
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, inverse


def _normalized_backward(
    grad: Term, t: Term, axes: Sequence[int], mean: Term, inverse: Term, weight: Term | None
) -> tuple[Term, Term]:
    """The gradient, and what that by the weight is a sum of."""
    count, normal = t.count(axes), (t - mean) * inverse
    scaled = grad if weight is None else grad * weight
    dx = inverse * (scaled - scaled.sum(axes) / count - normal * ((scaled * normal).sum(axes) / count))
    return dx, grad * normal


@overload("native_layer_norm", floats=True, mixed=True)
def layer_norm(
    c: Call, x: Node, normalized_shape: Sequence[int], weight: Node | None, bias: Node | None, eps: float
) -> list[Node]:
    axes = range(x.rank - len(normalized_shape), x.rank)
    scale, shift = (None if node is None else c.term(node) for node in (weight, bias))
    return [made.node for made in _normalized(c.term(x), axes, scale, shift, eps)]


@overload("native_layer_norm_backward", floats=True, mixed=True)
def layer_norm_backward(
    c: Call, dy: Node, x: Node, normalized_shape: Sequence[int], mean: Node, rstd: Node, weight: Node | None,
    bias: Operand | None, output_mask: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    inner = x.rank - len(normalized_shape)
    grad, t, centre, inverse = (c.term(node, DType.F32) for node in (dy, x, mean, rstd))
    scale = None if weight is None else c.term(weight, DType.F32)
    dx, by_weight = _normalized_backward(grad, t, range(inner, x.rank), centre, inverse, scale)
    sums = [c.b.reduce("sum", part.node, range(inner)) for part in (by_weight, grad)]
    return [node if wanted else None for node, wanted in zip([dx.node, *sums], output_mask, strict=True)]


@overload("native_group_norm", floats=True, mixed=True)
def group_norm(
    c: Call, x: Node, weight: Node | None, bias: Node | None, n: int, channels: int, places: int, groups: int,
    eps: float,
) -> list[Node]:  # fmt: skip
    """y, and mean and 1 / sqrt(variance + eps) of each sample's groups."""
    b, inner = c.b, channels // groups
    if 0 in x.shape:
        raise c.refused("an empty tensor")
    t = c.term(b.reshape(x, (n, groups, inner, places)))
    scale, shift = (None if node is None else c.term(b.reshape(node, (groups, inner, 1))) for node in (weight, bias))
    y, mean, inverse = _normalized(t, [2, 3], scale, shift, eps)
    return [b.reshape(y.node, x.shape), mean.flat([2, 3]).node, inverse.flat([2, 3]).node]


@overload("native_group_norm_backward", floats=True, mixed=True)
def group_norm_backward(
    c: Call, dy: Node, x: Node, mean: Node, rstd: Node, weight: Node | None, n: int, channels: int, places: int,
    groups: int, output_mask: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    b, inner = c.b, channels // groups
    if 0 in x.shape:
        raise c.refused("an empty tensor")
    split, each = (n, groups, inner, places), (n, groups, 1, 1)
    given = (dy, split), (x, split), (mean, each), (rstd, each)
    grad, t, centre, inverse = (c.term(b.reshape(node, shape), DType.F32) for node, shape in given)
    scale = None if weight is None else c.term(b.reshape(weight, (groups, inner, 1)), DType.F32)
    dx, by_weight = _normalized_backward(grad, t, [2, 3], centre, inverse, scale)
    sums = [b.reshape(b.reduce("sum", part.node, [0, 3]), (channels,)) for part in (by_weight, grad)]
    made = [b.reshape(dx.node, x.shape), *sums]
    return [node if wanted else None for node, wanted in zip(made, output_mask, strict=True)]


# -- a weight as a length and a direction -----------------------------------------------------------------------


@overload("_weight_norm_interface", floats=True, mixed=True)
def weight_norm(c: Call, v: Node, g: Node, dim: int = 0) -> list[Node]:
    """v * g / |v|, and |v|, which has one value for each place of an axis."""
    t = c.term(v)
    length = (t * t).sum([k for k in range(v.rank) if k != dim % v.rank]).map("sqrt")
    return [(t * (c.term(g) / length)).node, length.node]


@overload("_weight_norm_interface_backward", floats=True, mixed=True)
def weight_norm_backward(c: Call, dw: Node, v: Node, g: Node, norms: Node, dim: int) -> list[Node]:
    """With the direction u = v / |v|: dg = sum(dw * u), dv = g / |v| * (dw - u * dg)."""
    grad, length = c.term(dw, DType.F32), c.term(norms, DType.F32)
    direction = c.term(v, DType.F32) / length
    along = (grad * direction).sum([k for k in range(v.rank) if k != dim % v.rank])
    return [((grad - direction * along) * (c.term(g, DType.F32) / length)).node, along.node]
