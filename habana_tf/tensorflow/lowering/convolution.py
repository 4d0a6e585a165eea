"""Rows of convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.convolution import Convolution
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import extents, size_of
from habana_tf.tensorflow.lowering.channels import channels_last
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op
from habana_tf.tensorflow.lowering.window_axes import axes_of, check_result


def _convolution(c: Lowering, x_shape: Sequence[Extent], w_shape: Sequence[Extent]) -> Convolution:
    """The convolution of an op for the shapes of its input and filter."""
    rank = len(w_shape) - 2
    c.require(len(x_shape) == rank + 2, f"an input of rank {rank + 2} is needed")
    channels = size_of(c, x_shape[-1], "the number of channels")
    *kernels, inner, outer = (size_of(c, n, "the shape of the filter") for n in w_shape)
    groups = channels // inner if inner else 1
    if inner * groups != channels or outer % max(groups, 1):
        raise c.error(f"{channels} channels do not fit a filter for {inner} channels, {outer} out")
    return Convolution(c.b, axes_of(c, x_shape[1:-1], kernels), inner, outer, groups)


def input_shape(c: Lowering, w: Node, dy: Node) -> list[Extent]:
    """The input's shape: from input_sizes, whose batch and channel entries may be missing."""
    sizes = extents(c, "input_sizes")
    if len(sizes) == w.rank - 2:
        return [dy.shape[0], *sizes, w.shape[-2]]
    if isinstance(sizes[0], int) and isinstance(dy.shape[0], int) and sizes[0] != dy.shape[0]:
        raise c.error(f"input_sizes {sizes} and out_backprop must have one batch size")
    return [dy.shape[0], *sizes[1:]]


@op("Conv2D", "Conv3D", T=FLOATS)
@channels_last("input")
def convolution(c: Lowering) -> Node:
    x, w = c.inputs
    return _convolution(c, x.shape, w.shape).forward(x, w)


@op("Conv2DBackpropInput", fixed=("input_sizes",), T=FLOATS)
@op("Conv3DBackpropInputV2", fixed=("input_sizes",), T=FLOATS)
@channels_last("out_backprop", sizes="input_sizes")
def convolution_input_gradient(c: Lowering) -> Node:
    w, dy = c.input("filter"), c.input("out_backprop")
    layer = _convolution(c, input_shape(c, w, dy), w.shape)
    check_result(c, dy, dy.shape[0], layer.axes, layer.outer)
    return layer.input_gradient(w, dy)


@op("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", fixed=("filter_sizes",), T=FLOATS)
@channels_last("input", "out_backprop", results=())
def convolution_filter_gradient(c: Lowering) -> Node:
    x, dy = c.input("input"), c.input("out_backprop")
    sizes = [int(n) for n in c.value("filter_sizes")]
    layer = _convolution(c, x.shape, sizes)
    check_result(c, dy, x.shape[0], layer.axes, layer.outer)
    return layer.filter_gradient(x, dy)
