"""Max and average pooling and their gradients, over the window views of `spatial`.

The gradient of max pooling goes to the first maximum of a window, as TensorFlow's does (but for its MaxPool3DGrad
eagerly or without oneDNN, which gives it to every maximum).

NaN is passed over, as by TensorFlow's kernels on the CPU and by cuDNN: a window of nothing but NaN or minus infinity
has the lowest float32 for its maximum (minus infinity in bfloat16), and its gradient goes to its first element.
MaxPoolWithArgmax alone gives NaN, where the first element of a window is one.

Average pooling divides by the number of elements in the window, padding not counted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from habana_tf.formulas import max_pooling, spatial
from habana_tf.formulas.max_pooling import LOWEST
from habana_tf.formulas.ordering import limits
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.formulas.term import Term, wrap
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Shape
from habana_tf.tensorflow.lowering.arguments import constant_shape, extents, ints
from habana_tf.tensorflow.lowering.channels import channels_last
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, INDEX, Lower, op
from habana_tf.tensorflow.lowering.window_axes import axes_of, check_result

FEW = 9
"""Elements of a window that a kernel looks at without a loop. Of larger ones it finds each one's place anew: maxima of
13 x 13 elements took half as long again, though with their gradient a fifth less."""


def _axes(c: Lowering, shape: Sequence[Extent]) -> list[WindowAxis]:
    ksize = c.attr("ksize")
    if ksize[0] != 1 or ksize[-1] != 1:
        raise c.error("TensorFlow pools over the channels in MaxPool alone, and never over the batch")
    c.require(len(shape) == len(ksize), f"an input of rank {len(ksize)} is needed")
    if len(ksize) == 4 and not c.op.startswith("MaxPoolGrad"):  # a stride over channels counts for nothing
        c = dataclasses.replace(c, attrs={**c.attrs, "strides": [*c.attr("strides")[:-1], 1]})
    axes = axes_of(c, shape[1:-1], ksize[1:-1])
    explicit = axes if c.attr("padding") == "EXPLICIT" else []
    if any(c.at_least(side, a.kernel) for a in explicit for side in (a.low, a.high)):
        raise c.error(f"paddings {c.attr('explicit_paddings')} must be smaller than the windows {ksize}")
    return axes


def _over_channels(c: Lowering, x: Node) -> Node:
    """The maxima of groups of channels; strides over the images count for nothing, as in TensorFlow."""
    group, (n,) = c.attr("ksize")[-1], constant_shape(c, x, x.rank - 1)
    if x.rank != 4 or any(k != 1 for k in c.attr("ksize")[:-1]) or c.attr("strides")[-1] != group or n % group:
        raise c.error("windows over channels must be over nothing else, follow each other and take all channels")
    return c.b.reduce("max", c.b.reshape(x, [*x.shape[:-1], n // group, group]), [x.rank])


def _output(x: Node, axes: Sequence[WindowAxis]) -> Shape:
    """The shape of the pooled x."""
    return (x.shape[0], *(a.out for a in axes), x.shape[-1])


@op("MaxPool", "MaxPool3D", T=FLOATS)
@channels_last("input")
def max_pool(c: Lowering) -> Node:
    x = c.inputs[0]
    if c.attr("ksize")[-1] != 1:
        return _over_channels(c, x)
    axes = _axes(c, x.shape)
    if any(a.out == 0 for a in axes):
        return c.b.const(0, x.dtype, _output(x, axes))
    return _largest(c, x, axes)


def _largest(c: Lowering, x: Node, axes: Sequence[WindowAxis]) -> Node:
    """The maximum of each window."""
    few = math.prod(a.kernel for a in axes) <= FEW
    view = max_pooling.elements(c.b, x, axes) if few else spatial.windows(c.b, x, axes, LOWEST)
    return c.b.reduce("max", _numbers(c, view), range(x.rank, view.rank))


def _numbers(c: Lowering, x: Node) -> Node:
    """x with what the search begins with in the place of NaN: in float32 the lowest number, also for minus infinity."""
    least = c.b.const(limits(x.dtype)[0] if x.dtype is DType.F32 else LOWEST, x.dtype, x.shape)
    return c.b.select(c.b.map("gt", x, least), x, least)


@op("MaxPoolGrad", T=FLOATS)
@channels_last("orig_input", "orig_output", "grad")
def max_pool_gradient(c: Lowering) -> Node:
    x, _, dy = c.inputs[:3]
    b, axes = c.b, _axes(c, x.shape)
    check_result(c, dy, x.shape[0], axes, x.shape[-1])
    if any(a.out == 0 or a.size == 0 for a in axes):
        return b.const(0, x.dtype, x.shape)
    first = max_pooling.winners(b, _numbers(c, max_pooling.elements(b, x, axes)), axes)
    return max_pooling.gradient_of_winners(b, dy, axes, first)


@op("MaxPool3DGrad", T=FLOATS, TInput=FLOATS)
def max_pool_3d_gradient(c: Lowering) -> Node | Sequence[Node]:
    """Of equal maxima the first gets the gradient, as in TensorFlow's graphs with oneDNN; eagerly, or without it,
    TensorFlow gives it to each of them.
    """
    return max_pool_gradient(c)


@op("MaxPoolGradGrad", T=FLOATS)
@op("MaxPool3DGradGrad", T=FLOATS)
@channels_last("orig_input", "orig_output", "grad")
def max_pool_second_gradient(c: Lowering) -> Node:
    """What `grad`, of the input's shape, has where each window has its maximum."""
    x, _, dy = c.inputs[:3]
    b, axes = c.b, _axes(c, x.shape)
    c.require(dy.shape == x.shape, "grad must have the shape of orig_input")
    if any(a.out == 0 or a.size == 0 for a in axes):
        return b.const(0, x.dtype, _output(x, axes))
    first = max_pooling.winners(b, _numbers(c, max_pooling.elements(b, x, axes)), axes)
    view = spatial.windows(b, dy, axes)
    flat = b.reshape(view, [*view.shape[: x.rank], math.prod(a.kernel for a in axes)])
    mine = b.map("eq", b.broadcast_in_dim(first, flat.shape, range(x.rank)), b.iota(flat.shape, x.rank, DType.I32))
    return b.reduce("sum", b.select(mine, flat, b.const(0, dy.dtype)), [x.rank])


def _counts(c: Lowering, axes: Sequence[WindowAxis]) -> Node:
    """float32 [1, O.., 1]: how many input elements each window holds."""
    counts = Term(c.b, c.b.const(1, DType.F32, [1] * (len(axes) + 2)))
    for i, a in enumerate(axes):
        if a.low == a.high == 0:
            counts = counts * float(a.kernel)
            continue
        low, size = (Term(c.b, c.b.extent(n, DType.I32)) for n in (a.low, a.size))
        begin = max_pooling.begins(c.b, axes, i) - low
        counts = counts * Term(c.b, c.b.cast(((begin + a.kernel).min(size) - begin.max(0)).node, DType.F32))
    return counts.node


def _with_inputs_as_attributes(c: Lowering) -> Lowering:
    """The same op as its first version, which had window and strides as attributes."""
    values = {name: ints(c, name) for name in ("ksize", "strides")}
    c.require(all(len(v) == 4 for v in values.values()), f"ksize and strides must have 4 elements: {values}")
    return dataclasses.replace(c, attrs={**c.attrs, **values})


def _with_input_windows(lower: Lower) -> Lower:
    return lambda c: lower(_with_inputs_as_attributes(c))


for _name, _lower in {
    "MaxPoolV2": max_pool, "MaxPoolGradV2": max_pool_gradient, "MaxPoolGradGradV2": max_pool_second_gradient,
}.items():  # fmt: skip
    op(_name, fixed=("ksize", "strides"), T=FLOATS)(_with_input_windows(_lower))


@op("MaxPoolWithArgmax", T=FLOATS, Targmax=INDEX)
def max_pool_with_argmax(c: Lowering) -> Sequence[Node]:
    """The maxima, and where they are: ((batch * height + y) * width + x) * channels + channel."""
    b, (x,), to = c.b, c.inputs, c.attr("Targmax")
    if c.attr("ksize")[-1] != 1:
        _over_channels(c, x)  # refuses what TensorFlow refuses, whose kernel then takes the channels one by one
        c = dataclasses.replace(c, attrs={**c.attrs, "ksize": [1, 1, 1, 1]})
    axes = _axes(c, x.shape)
    shape = _output(x, axes)
    if any(a.out == 0 or a.size == 0 for a in axes):
        return b.const(0, x.dtype, shape), b.const(0, to, shape)
    elements = _numbers_or_first(c, max_pooling.elements(b, x, axes), axes)
    offset = wrap(b, b.cast(max_pooling.winners(b, elements, axes), to))
    height, width = axes
    down = (offset / width.kernel) if width.kernel > 1 else offset
    y = wrap(b, b.iota(shape, 1, to)) * height.stride + down * height.dilation - _number(c, height.low, to)
    across = offset - down * width.kernel
    x_at = wrap(b, b.iota(shape, 2, to)) * width.stride + across * width.dilation - _number(c, width.low, to)
    flat = (y * _number(c, width.size, to) + x_at) * _number(c, x.shape[-1], to) + wrap(b, b.iota(shape, 3, to))
    if c.attr("include_batch_in_index"):
        flat = flat + wrap(b, b.iota(shape, 0, to)) * _number(c, ext.product(x.shape[1:]), to)
    return b.reduce("max", elements, [x.rank]), flat.node


def _numbers_or_first(c: Lowering, elements: Node, axes: Sequence[WindowAxis]) -> Node:
    """The elements of windows, minus infinity in the place of each NaN that does not stand first in its window: that
    one nothing is greater than."""
    b, shape = c.b, elements.shape
    first = b.expand(b.reshape(max_pooling.first_elements(b, axes), (1, *(a.out for a in axes), 1, 1)), shape)
    stands_first = b.map("eq", b.iota(shape, len(shape) - 1, DType.I32), first)
    keep = b.map("or", stands_first, b.map("eq", elements, elements))
    return b.select(keep, elements, b.const(LOWEST, elements.dtype))


def _number(c: Lowering, n: Extent, dtype: DType) -> Term:
    return wrap(c.b, c.b.extent(n, dtype))


@op("MaxPoolGradWithArgmax", T=FLOATS, Targmax=INDEX)
def max_pool_gradient_with_argmax(c: Lowering) -> Node:
    """`grad` added up where argmax says, which MaxPoolWithArgmax gave."""
    b, (x, dy, places) = c.b, c.inputs
    c.require(dy.shape == places.shape, "grad and argmax must have one shape")
    wide = dy.dtype.accumulator
    each = ext.product(x.shape[1:])
    if c.attr("include_batch_in_index"):
        size = ext.product(x.shape)
        base = b.const(0, wide, (size,))
        flat = b.scatter(base, b.reshape(b.cast(dy, wide), (dy.numel,)), [b.reshape(places, (dy.numel,))], [0], "add")
    else:
        rows = (dy.shape[0], ext.product(dy.shape[1:]))
        base = b.const(0, wide, (x.shape[0], each))
        coords = [b.iota(rows, 0, places.dtype), b.reshape(places, rows)]
        flat = b.scatter(base, b.reshape(b.cast(dy, wide), rows), coords, [0, 1], "add")
    return b.cast(b.reshape(flat, x.shape), dy.dtype)


def _average(c: Lowering) -> Node:
    x = c.inputs[0]
    axes = _axes(c, x.shape)
    if any(a.out == 0 for a in axes):
        return c.b.const(0, x.dtype, _output(x, axes))
    view = c.b.cast(spatial.windows(c.b, x, axes), x.dtype.accumulator)
    total = c.b.reduce("sum", view, range(x.rank, view.rank))
    return c.b.cast(c.b.binary("div", total, _counts(c, axes)), x.dtype)


op("AvgPool", T=FLOATS)(channels_last("value")(_average))
op("AvgPool3D", T=FLOATS)(channels_last("input")(_average))


@op("AvgPoolGrad", "AvgPool3DGrad", fixed=("orig_input_shape",), T=FLOATS)
@channels_last("grad", sizes="orig_input_shape")
def average_pool_gradient(c: Lowering) -> Node:
    dy = c.input("grad")
    shape = [dy.shape[0], *extents(c, "orig_input_shape")[1:]]
    b, axes = c.b, _axes(c, shape)
    check_result(c, dy, dy.shape[0], axes, shape[-1])
    if any(a.out == 0 or a.size == 0 for a in axes):
        return b.const(0, dy.dtype, shape)
    share = b.binary("div", b.cast(dy, dy.dtype.accumulator), _counts(c, axes))
    if spatial.disjoint(axes):
        blocks = [shape[0], *(n for a in axes for n in (a.out, a.kernel)), shape[-1]]
        places = [0, *(1 + 2 * i for i in range(len(axes))), len(blocks) - 1]
        return b.cast(spatial.unfold(b, b.broadcast_in_dim(share, blocks, places), axes), dy.dtype)
    view = spatial.spread(b, share, axes)
    return b.cast(b.reduce("sum", view, range(dy.rank, view.rank)), dy.dtype)
