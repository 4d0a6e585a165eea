"""Depthwise convolution and its gradients: one filter per channel.

There is no sum over channels for the matrix engine to do, so these are products and sums over the window views
of `spatial`, in float32, rounded once. Channels count as [C, M]: M results per input channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.formulas import spatial
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import size_of
from habana_tf.tensorflow.lowering.channels import channels_last
from habana_tf.tensorflow.lowering.convolution import input_shape
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op
from habana_tf.tensorflow.lowering.window_axes import axes_of, check_result


def _depthwise_axes(c: Lowering, x_shape: Sequence[Extent], w_shape: Sequence[Extent]) -> list[WindowAxis]:
    if len(x_shape) != 4 or len(w_shape) != 4 or x_shape[3] != w_shape[2]:
        raise c.error("input [N, H, W, C] and filter [KH, KW, C, M] are needed")
    size_of(c, x_shape[3], "the number of channels")
    return axes_of(c, x_shape[1:3], [size_of(c, n, "the shape of the filter") for n in w_shape[:2]])


def _per_channel(c: Lowering, w: Node, axes: Sequence[WindowAxis]) -> Node:
    """w[KH, KW, C, M] as float32 [1, 1, 1, C, M, K..] without kernel axes of size 1."""
    k = [a.kernel for a in axes if a.kernel > 1]
    w = c.b.permute(c.b.reshape(w, [*k, *w.shape[2:]]), [len(k), len(k) + 1, *range(len(k))])
    return c.b.reshape(c.b.cast(w, w.dtype.accumulator), [1, 1, 1, *w.shape])


def _with_multiplier(c: Lowering, view: Node, m: int) -> Node:
    """[N, P, P, C * m, K..] as float32 [N, P, P, C, m, K..]."""
    n = view.shape[3]
    assert isinstance(n, int)
    shape = [*view.shape[:3], n // m, m, *view.shape[4:]]
    return c.b.cast(c.b.reshape(view, shape), view.dtype.accumulator)


@op("DepthwiseConv2dNative", T=FLOATS)
@channels_last("input")
def depthwise(c: Lowering) -> Node:
    x, w = c.inputs
    axes = _depthwise_axes(c, x.shape, w.shape)
    shape = [x.shape[0], *(a.out for a in axes), math.prod(_filter(w))]
    if 0 in shape[1:]:
        return c.b.const(0, x.dtype, shape)
    view = _with_multiplier(c, spatial.windows(c.b, x, axes), 1)
    terms = c.b.binary("mul", view, _per_channel(c, w, axes))
    return c.b.cast(c.b.reshape(c.b.reduce("sum", terms, range(5, terms.rank)), shape), x.dtype)


def _filter(w: Node) -> tuple[int, int]:
    """Channels and multiplier of a filter."""
    n, m = w.shape[2:]
    assert isinstance(n, int) and isinstance(m, int)
    return n, m


@op("DepthwiseConv2dNativeBackpropInput", fixed=("input_sizes",), T=FLOATS)
@channels_last("out_backprop", sizes="input_sizes")
def depthwise_input_gradient(c: Lowering) -> Node:
    w, dy = c.input("filter"), c.input("out_backprop")
    axes = _depthwise_axes(c, input_shape(c, w, dy), w.shape)
    check_result(c, dy, dy.shape[0], axes, math.prod(_filter(w)))
    shape = [dy.shape[0], *(a.size for a in axes), w.shape[2]]
    if 0 in dy.shape[1:] or 0 in shape[1:]:
        return c.b.const(0, dy.dtype, shape)
    view = _with_multiplier(c, spatial.spread(c.b, dy, axes), _filter(w)[1])
    turned = c.b.reverse(w, (0, 1))
    terms = c.b.binary("mul", view, _per_channel(c, turned, axes))
    return c.b.cast(c.b.reduce("sum", terms, range(4, terms.rank)), dy.dtype)


@op("DepthwiseConv2dNativeBackpropFilter", fixed=("filter_sizes",), T=FLOATS)
@channels_last("input", "out_backprop", results=())
def depthwise_filter_gradient(c: Lowering) -> Node:
    x, dy = c.input("input"), c.input("out_backprop")
    sizes = [int(n) for n in c.value("filter_sizes")]
    axes = _depthwise_axes(c, x.shape, sizes)
    check_result(c, dy, x.shape[0], axes, sizes[2] * sizes[3])
    if 0 in dy.shape[1:] or 0 in sizes:
        return c.b.const(0, x.dtype, sizes)
    view = _with_multiplier(c, spatial.windows(c.b, x, axes), 1)  # [N, O, O, C, 1, K..]
    view = c.b.permute(view, [0, 1, 2, *range(5, view.rank), 3, 4])  # [N, O, O, K.., C, 1]
    dy = _with_multiplier(c, dy, sizes[3])  # [N, O, O, C, M]
    dy = c.b.reshape(dy, [*dy.shape[:3], *[1] * (view.rank - 5), *dy.shape[3:]])
    total = c.b.reduce("sum", c.b.binary("mul", view, dy), (0, 1, 2))  # [K.., C, M]
    return c.b.cast(c.b.reshape(total, sizes), x.dtype)
