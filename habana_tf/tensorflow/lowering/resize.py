"""Resizing of images [N, H, W, C] and its gradients, one axis after the other.

Where an element of the result looks is known from the sizes alone, so positions and weights are constants; of images
whose size changes they are computed, but for bicubic and area:

    nearest     y[i] = x[near[i]]
    bilinear    y[i] = x[low[i]] * (1 - part[i]) + x[high[i]] * part[i]
    bicubic     y[i] = the sum over four elements around the place, weighted by a cubic in their distance
    area        y[i] = the mean over the stretch of the image that falls on it

Bicubic and area are products with a constant matrix of weights, [elements of the result, elements of the image]. A
gradient adds up, for each element of the image, what the elements of the result that looked there got: a product with
that matrix from the other side. The gradient of nearest by a whole factor needs none: it is a sum over blocks.

Bilinear, bicubic and area results are float32, as TensorFlow's; positions are computed in float32 in TensorFlow's
order of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Node, Shape
from habana_tf.tensorflow.lowering.arguments import extents, size_of
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, INTS, op

TYPES = (*FLOATS, *(d for d in INTS if d not in (DType.U32, DType.U64)))
H, W = 1, 2


def _scale(c: Lowering, size: Extent, out: Extent) -> Term:
    """float32: how far apart in the image the places of neighbouring elements of the result are."""
    if c.attr("align_corners", False) and c.attr("half_pixel_centers", False):
        raise c.error("align_corners and half_pixel_centers exclude each other")
    if c.attr("align_corners", False) and c.at_least(out, 2):
        size, out = ext.add(size, -1), ext.add(out, -1)
    return wrap(c.b, c.b.extent(size, DType.F32)) / wrap(c.b, c.b.extent(out, DType.F32))


def _positions(c: Lowering, size: Extent, out: Extent) -> Term:
    """float32[out]: the place in the image, in elements, that each element of the result asks for."""
    scale, places = _scale(c, size, out), wrap(c.b, c.b.iota((out,), 0, DType.F32))
    if c.attr("half_pixel_centers", False):
        return (places + 0.5) * scale - (0 if "Nearest" in c.op else 0.5)
    return places * scale


def _known(c: Lowering, line: Node) -> Node:
    """A line of numbers that follow from sizes: a constant where these are numbers."""
    value = c.known(line)
    return line if value is None or value.dtype == object else c.b.literal(value)


def _near(c: Lowering, size: Extent, out: Extent) -> Node:
    """int32[out]: the element nearest to each place."""
    places = _positions(c, size, out)
    found = (places + 0.5 if c.attr("align_corners", False) else places).map("floor")
    return _known(c, c.b.cast(_within(c, found, size).node, DType.I32))


def _within(c: Lowering, places: Term, size: Extent) -> Term:
    """Places brought into the image."""
    return places.max(0).min(wrap(c.b, c.b.extent(ext.add(size, -1), DType.F32)))


def _between(c: Lowering, size: Extent, out: Extent) -> tuple[Node, Node, Node]:
    """int32[out], int32[out], float32[out]: the neighbours of each place, and how far it is to the second."""
    places = _positions(c, size, out)
    floor = places.map("floor")
    last = wrap(c.b, c.b.extent(ext.add(size, -1), DType.F32))
    low, high = c.b.cast(floor.max(0).node, DType.I32), c.b.cast(places.map("ceil").min(last).node, DType.I32)
    return _known(c, low), _known(c, high), _known(c, (places - floor).node)


def _sizes(c: Lowering, x: Node, which: str) -> tuple[Shape, list[Extent]]:
    """The image's shape and the height and width wanted."""
    c.require(x.rank == 4, "images must have rank 4")
    wanted = extents(c, which)
    if len(wanted) != 2 or not all(c.at_least(n, 1) for n in wanted) or 0 in x.shape[1:3]:
        raise c.error(f"sizes must be positive: {list(x.shape[1:3])} to {wanted}")
    return x.shape, wanted


def _factor(c: Lowering, size: Extent, out: Extent, places: Node) -> int | None:
    """How often each element stands in the result, one after the other, if `places` come to that."""
    factor = ext.divide(out, size)
    if not isinstance(factor, int):
        return None
    known = c.known(places)
    if known is None:  # for every size there may be: rounding leaves halves and powers of two exact enough
        exact = "Nearest" in c.op and not c.attr("align_corners", False)
        return factor if exact and (c.attr("half_pixel_centers", False) or factor & (factor - 1) == 0) else None
    return factor if (known == np.arange(len(known)) // factor).all() else None


def _pick(c: Lowering, x: Node, axis: int, places: Node) -> Node:
    """x at `places` along an axis."""
    out = places.shape[0]
    if (factor := _factor(c, x.shape[axis], out, places)) is not None:
        shape = [*x.shape[: axis + 1], factor, *x.shape[axis + 1 :]]
        repeated = c.b.broadcast_in_dim(x, shape, [k for k in range(len(shape)) if k != axis + 1])
        return c.b.reshape(repeated, [*x.shape[:axis], out, *x.shape[axis + 1 :]])
    picked = c.b.gather(x, [places], [axis])
    return c.b.permute(picked, [*range(1, axis + 1), 0, *range(axis + 1, x.rank)])


def _spread(c: Lowering, dy: Node, axis: int, weights: Any) -> Node:
    """The product over an axis of dy with weights[its elements, elements of the image], in float32."""
    kept = tuple(range(10, 10 + dy.rank))
    out = tuple(0 if k == axis else label for k, label in enumerate(kept))
    spec = Contraction(kept, (kept[axis], 0), out, DType.F32)
    return c.b.contract(dy, c.b.literal(weights), spec)


def _put_back(c: Lowering, dy: Node, axis: int, size: Extent, shares: Sequence[tuple[Node, Node | None]]) -> Node:
    """What the elements of the result along an axis got, added up for those of the image where they looked.

    shares: places, and the weights of what was seen there (None: 1). Of sizes that are numbers a product with a matrix.
    """
    b, out = c.b, dy.shape[axis]
    places: list[Any] = [c.known(p) for p, _ in shares]
    parts: list[Any] = [np.ones(1, np.float32) if w is None else c.known(w) for _, w in shares]
    if isinstance(size, int) and isinstance(out, int) and all(v is not None for v in (*places, *parts)):
        weights = np.zeros((out, size), np.float32)
        for p, w in zip(places, parts, strict=True):
            np.add.at(weights, (np.arange(out), p), w)
        return _spread(c, dy, axis, weights)
    total = b.const(0, dy.dtype, [size if k == axis else n for k, n in enumerate(dy.shape)])
    for p, w in shares:
        part = dy if w is None else b.map("mul", dy, b.broadcast_in_dim(w, dy.shape, [axis]))
        rows = b.permute(part, [axis, *(k for k in range(dy.rank) if k != axis)])
        total = b.scatter(total, rows, [p], [axis], "add")
    return total


@op("ResizeNearestNeighbor", fixed=["size"], T=TYPES)
def nearest(c: Lowering) -> Node:
    x = c.input("images")
    shape, wanted = _sizes(c, x, "size")
    for axis, out in zip((H, W), wanted, strict=True):
        x = _pick(c, x, axis, _near(c, shape[axis], out))
    return x


@op("ResizeNearestNeighborGrad", fixed=["size"], T=FLOATS)
def nearest_gradient(c: Lowering) -> Node:
    dy = c.input("grads")
    shape, size = _sizes(c, dy, "size")
    dx = c.b.cast(dy, dy.dtype.accumulator)
    for axis, n in zip((H, W), size, strict=True):
        near = _near(c, n, shape[axis])
        if (factor := _factor(c, n, shape[axis], near)) is not None:
            blocks = c.b.reshape(dx, [*dx.shape[:axis], n, factor, *dx.shape[axis + 1 :]])
            dx = c.b.reduce("sum", blocks, [axis + 1])
        else:
            dx = _put_back(c, dx, axis, n, [(near, None)])
    return c.b.cast(dx, dy.dtype)


@op("ResizeBilinear", fixed=["size"], T=TYPES)
def bilinear(c: Lowering) -> Node:
    """float32 whatever the type of the images."""
    b, x = c.b, c.input("images")
    shape, wanted = _sizes(c, x, "size")
    x = b.cast(x, DType.F32)
    for axis, out in zip((W, H), reversed(wanted), strict=True):
        low, high, part = _between(c, shape[axis], out)
        first, second = _pick(c, x, axis, low), _pick(c, x, axis, high)
        weight = b.broadcast_in_dim(part, first.shape, [axis])
        x = b.map("add", first, b.map("mul", b.map("sub", second, first), weight))
    return x


def _check_gradient(c: Lowering, shape: Sequence[Extent], size: Sequence[Extent]) -> None:
    c.require(len(shape) == 4 and len(size) == 4, "grads and original_image must have rank 4")


@op("ResizeBilinearGrad", T=FLOATS)
def bilinear_gradient(c: Lowering) -> Node:
    dy, image = c.inputs
    _check_gradient(c, dy.shape, image.shape)
    dx = dy
    for axis in (H, W):
        low, high, part = _between(c, image.shape[axis], dy.shape[axis])
        shares = [(low, _known(c, (1 - wrap(c.b, part)).node)), (high, part)]
        dx = _put_back(c, dx, axis, image.shape[axis], shares)
    return c.b.cast(dx, image.dtype)


# -- by a matrix of weights -----------------------------------------------------------------------------------

STEPS = 1024
"""TensorFlow rounds distances to multiples of 1/1024 and takes the weights of a cubic from a table."""


def _cubic(sharpness: float) -> Any:
    """float32[STEPS + 1, 2]: the weights of the nearer and the farther element on one side, by distance to the nearer.

    R. Keys, Cubic convolution interpolation (1981): `sharpness` is his a.
    """
    near = np.arange(STEPS + 1, dtype=np.float64) / STEPS
    far, a = near + 1, sharpness
    return np.stack(
        [((a + 2) * near - (a + 3)) * near**2 + 1, ((a * far - 5 * a) * far + 8 * a) * far - 4 * a], axis=1
    ).astype(np.float32)


def _bicubic_weights(c: Lowering, size: int, out: int) -> Any:
    """float32[out, size]. What is beyond the edge counts as the edge, or not at all with half_pixel_centers."""
    centred = bool(c.attr("half_pixel_centers", False))
    table = _cubic(-0.5 if centred else -0.75)
    places: Any = c.known(_positions(c, size, out).node)
    first = np.floor(places)
    step = np.rint((places - first).astype(np.float32) * np.float32(STEPS)).astype(np.int64)
    weights = np.zeros((out, size), np.float32)
    rows = np.arange(out)
    for offset, values in ((-1, table[step, 1]), (0, table[step, 0]), (1, table[STEPS - step, 0]),
                           (2, table[STEPS - step, 1])):  # fmt: skip
        wanted = first.astype(np.int64) + offset
        inside = np.clip(wanted, 0, size - 1)
        np.add.at(weights, (rows, inside), np.where((inside == wanted) | (not centred), values, 0))
    return weights / weights.sum(1, keepdims=True) if centred else weights


def _area_weights(c: Lowering, size: int, out: int) -> Any:
    """float32[out, size]: how much of each element lies in the stretch of each result; beyond the edge is the edge."""
    aligned = c.attr("align_corners", False) and out > 1
    scale = np.float32((size - 1) / np.float32(out - 1)) if aligned else np.float32(size) / np.float32(out)
    if scale == 0:  # the corners of one element, aligned
        return np.ones((out, 1), np.float32)
    begin = np.arange(out, dtype=np.float32) * scale
    end = np.arange(1, out + 1, dtype=np.float32) * scale
    weights = np.zeros((out, size), np.float32)
    for k in range(int(np.ceil(end.max()))):
        share = np.maximum(np.minimum(end, np.float32(k + 1)) - np.maximum(begin, np.float32(k)), 0)
        weights[:, min(k, size - 1)] += share
    return weights / scale


def _by_weights(c: Lowering, weights_of: Callable[[Lowering, int, int], Any]) -> Node:
    """float32 [N, height, width, C], whatever the type of the images."""
    x = c.input("images")
    shape, wanted = _sizes(c, x, "size")
    x = c.b.cast(x, DType.F32)
    for axis, out in zip((H, W), wanted, strict=True):
        x = _spread(c, x, axis, weights_of(c, _number(c, shape[axis]), _number(c, out)).T)
    return x


def _number(c: Lowering, n: Extent) -> int:
    return size_of(c, n, "an image of bicubic or area resizing, which has a table of weights for each size,")


@op("ResizeBicubic", fixed=["size"], T=TYPES)
def bicubic(c: Lowering) -> Node:
    """float32 whatever the type of the images."""
    return _by_weights(c, _bicubic_weights)


@op("ResizeBicubicGrad", T=(DType.F32,))
def bicubic_gradient(c: Lowering) -> Node:
    dx, image = c.inputs
    _check_gradient(c, dx.shape, image.shape)
    for axis in (H, W):
        weights = _bicubic_weights(c, _number(c, image.shape[axis]), _number(c, dx.shape[axis]))
        dx = _spread(c, dx, axis, weights)
    return dx


@op("ResizeArea", fixed=["size"], T=TYPES)
def area(c: Lowering) -> Node:
    """float32 whatever the type of the images."""
    return _by_weights(c, _area_weights)
