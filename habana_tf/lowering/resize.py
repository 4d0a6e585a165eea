"""Resizing of images [N, H, W, C] and its gradients, one axis after the other.

Where an element of the result looks is known from the sizes alone, so positions and weights are constants:

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

from ..compiler.dtypes import DType
from ..compiler.ir import Contraction, Node
from .array import constant_shape, ints
from .lower import Lowering
from .table import FLOATS, INTS, op

TYPES = (*FLOATS, *(d for d in INTS if d not in (DType.U32, DType.U64)))
H, W = 1, 2


def _positions(c: Lowering, size: int, out: int) -> Any:
    """float32[out]: the place in the image, in elements, that each element of the result asks for."""
    aligned, centred = c.attr("align_corners", False), c.attr("half_pixel_centers", False)
    if aligned and centred:
        raise c.error("align_corners and half_pixel_centers exclude each other")
    scale = np.float32((size - 1) / np.float32(out - 1)) if aligned and out > 1 else np.float32(size) / np.float32(out)
    places = np.arange(out, dtype=np.float32)
    if centred:
        return (places + np.float32(0.5)) * scale - np.float32(0 if "Nearest" in c.op else 0.5)
    return places * scale


def _near(c: Lowering, size: int, out: int) -> Any:
    """int32[out]: the element nearest to each place."""
    places = _positions(c, size, out)
    found = np.floor(places + np.float32(0.5)) if c.attr("align_corners", False) else np.floor(places)
    return np.clip(found, 0, size - 1).astype(np.int32)


def _between(c: Lowering, size: int, out: int) -> tuple[Any, Any, Any]:
    """int32[out], int32[out], float32[out]: the neighbours of each place, and how far it is to the second."""
    places = _positions(c, size, out)
    floor = np.floor(places)
    low = np.maximum(floor, 0).astype(np.int32)
    high = np.minimum(np.ceil(places), size - 1).astype(np.int32)
    return low, high, (places - floor).astype(np.float32)


def _sizes(c: Lowering, x: Node, which: str) -> tuple[tuple[int, ...], list[int]]:
    """The image's shape and the height and width wanted."""
    if x.rank != 4:
        raise c.error("images must have rank 4")
    wanted = ints(c, which)
    if len(wanted) != 2 or min(wanted) <= 0 or 0 in x.shape[1:3]:
        raise c.error(f"sizes must be positive: {list(x.shape[1:3])} to {wanted}")
    return constant_shape(c, x), wanted


def _pick(c: Lowering, x: Node, axis: int, places: Any) -> Node:
    """x at `places` along an axis."""
    n = x.shape[axis]
    if isinstance(n, int) and len(places) % n == 0 and (places == np.arange(len(places)) // (len(places) // n)).all():
        factor = len(places) // n
        shape = [*x.shape[: axis + 1], factor, *x.shape[axis + 1 :]]
        repeated = c.b.broadcast_in_dim(x, shape, [k for k in range(len(shape)) if k != axis + 1])
        return c.b.reshape(repeated, [*x.shape[:axis], len(places), *x.shape[axis + 1 :]])
    picked = c.b.gather(x, [c.b.literal(places)], [axis])
    return c.b.permute(picked, [*range(1, axis + 1), 0, *range(axis + 1, x.rank)])


def _spread(c: Lowering, dy: Node, axis: int, weights: Any) -> Node:
    """The product over an axis of dy with weights[its elements, elements of the image], in float32."""
    kept = tuple(range(10, 10 + dy.rank))
    out = tuple(0 if k == axis else label for k, label in enumerate(kept))
    spec = Contraction(kept, (kept[axis], 0), out, DType.F32)
    return c.b.contract(dy, c.b.literal(weights), spec)


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
        factor = shape[axis] // n
        if shape[axis] == factor * n and (near == np.arange(shape[axis]) // factor).all():
            blocks = c.b.reshape(dx, [*dx.shape[:axis], n, factor, *dx.shape[axis + 1 :]])
            dx = c.b.reduce("sum", blocks, [axis + 1])
        else:
            dx = _spread(c, dx, axis, (near[:, None] == np.arange(n)).astype(np.float32))
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
        weight = b.broadcast_in_dim(b.literal(part), first.shape, [axis])
        x = b.map("add", first, b.map("mul", b.map("sub", second, first), weight))
    return x


def _check_gradient(c: Lowering, shape: Sequence[int], size: Sequence[int]) -> None:
    if len(shape) != 4 or len(size) != 4:
        raise c.error("grads and original_image must have rank 4")


@op("ResizeBilinearGrad", T=FLOATS)
def bilinear_gradient(c: Lowering) -> Node:
    dy, image = c.inputs
    shape, size = constant_shape(c, dy), constant_shape(c, image)
    _check_gradient(c, shape, size)
    dx = dy
    for axis in (H, W):
        low, high, part = _between(c, size[axis], shape[axis])
        weights = np.zeros((shape[axis], size[axis]), np.float32)
        rows = np.arange(shape[axis])
        np.add.at(weights, (rows, low), 1 - part)
        np.add.at(weights, (rows, high), part)
        dx = _spread(c, dx, axis, weights)
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
    places = _positions(c, size, out)
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
        x = _spread(c, x, axis, weights_of(c, shape[axis], out).T)
    return x


@op("ResizeBicubic", fixed=["size"], T=TYPES)
def bicubic(c: Lowering) -> Node:
    """float32 whatever the type of the images."""
    return _by_weights(c, _bicubic_weights)


@op("ResizeBicubicGrad", T=(DType.F32,))
def bicubic_gradient(c: Lowering) -> Node:
    dx, image = c.inputs
    shape, size = constant_shape(c, dx), constant_shape(c, image)
    _check_gradient(c, shape, size)
    for axis in (H, W):
        dx = _spread(c, dx, axis, _bicubic_weights(c, size[axis], shape[axis]))
    return dx


@op("ResizeArea", fixed=["size"], T=TYPES)
def area(c: Lowering) -> Node:
    """float32 whatever the type of the images."""
    return _by_weights(c, _area_weights)
