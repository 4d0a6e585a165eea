"""Parts of images: boxes cropped and resized, and projective transforms.

Where each element of the result looks is computed at run time from boxes or transforms. Bilinear interpolation
weighs the four neighbours of a place (y, x), with y = top + dy and x = left + dx:

    top left (1 - dy) (1 - dx)   top right (1 - dy) dx   bottom left dy (1 - dx)   bottom right dy dx
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Shape
from habana_tf.tensorflow.lowering.arguments import constant_shape, extents
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import INDEX, INTS, op

CROP_TYPES = (DType.F32, *(d for d in INTS if d not in (DType.U32, DType.U64)))
TRANSFORM_TYPES = (DType.F32, DType.U8, *INDEX)


def _whole(x: Term) -> Node:
    """The int32 coordinates of a place."""
    return x.b.cast(x.node, DType.I32)


def _column(c: Lowering, table: Node, column: int, shape: Shape) -> Term:
    """Column of a float32 table [N, columns], over `shape` = [N, height, width]."""
    line = c.b.reshape(c.b.along(table, 1, column, 1), (table.shape[0],))
    if table.shape[0] == 1:
        return wrap(c.b, c.b.expand(line, shape))
    return wrap(c.b, c.b.broadcast_in_dim(line, shape, [0]))


def _line(c: Lowering, shape: Shape, axis: int) -> Term:
    return wrap(c.b, c.b.iota(shape, axis, DType.F32))


def _floor(x: Term) -> Term:
    return x.map("floor")


def _over_channels(c: Lowering, x: Term, shape: Shape) -> Term:
    """A number per place, over the channels of `shape`."""
    return Term(c.b, c.b.broadcast_in_dim(x.node, shape, [0, 1, 2]))


# -- boxes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SamplePoints:
    """Per element [boxes, height, width] of the crops: where it looks.

    image: int32, which image. y, x: float32. inside: whether that is in the image. rows, columns: as parts of a box
    from 0 to 1, float32 [height] and [width]; 1/2 where the crop has one row or column.
    """

    image: Node
    y: Term
    x: Term
    inside: Term
    rows: Node
    columns: Node


def _places(c: Lowering, image: Shape, crop: Sequence[Extent]) -> _SamplePoints:
    """image: [N, H, W, C]. crop: height and width."""
    b, boxes, index = c.b, c.input("boxes"), c.input("box_ind")
    if boxes.rank != 2 or boxes.shape[1] != 4 or index.shape != (boxes.shape[0],):
        raise c.error("boxes must be [boxes, 4] and box_ind [boxes]")
    c.context.in_range("box_ind", index, image[0])
    shape: Shape = (boxes.shape[0], *crop)
    found, lines = [], []
    inside = wrap(b, b.const(True, DType.BOOL, shape))
    for k, (extent, n) in enumerate(zip(image[1:3], crop, strict=True)):
        last = _last(c, extent)
        begin, end = (_column(c, boxes, k + side, shape) for side in (0, 2))
        if c.at_least(n, 2):
            step = (end - begin) * last / _last(c, n)
            place = begin * last + _line(c, shape, k + 1) * step
            line = _line(c, (n,), 0) / _last(c, n)
        else:
            place = (begin + end) * 0.5 * last
            line = wrap(b, b.const(0.5, DType.F32, (n,)))
        inside = inside.test("and", place.test("ge", 0)).test("and", place.test("le", last))
        found.append(place)
        lines.append(line.node)
    which = b.broadcast_in_dim(b.cast(index, DType.I32), shape, [0])
    return _SamplePoints(which, found[0], found[1], inside, lines[0], lines[1])


def _last(c: Lowering, n: Extent) -> Term:
    """The place of the last of n points."""
    return wrap(c.b, c.b.extent(ext.add(n, -1), DType.F32))


def _crop_method(c: Lowering) -> str:
    method: str = c.attr("method", "bilinear")
    c.require(method in ("bilinear", "nearest"), f"method {method!r} is neither bilinear nor nearest")
    return method


def _nearest(x: Term) -> Term:
    """The whole number nearest to x >= 0; halves go up."""
    low = _floor(x)
    return (x - low).test("ge", 0.5).where(low + 1, low)


def _neighbours(p: _SamplePoints) -> list[tuple[Term, Term, Term]]:
    """(row, column, weight) of the four neighbours of each place."""
    top, left = _floor(p.y), _floor(p.x)
    dy, dx = p.y - top, p.x - left
    bottom, right = p.y.map("ceil"), p.x.map("ceil")
    return [(top, left, (1 - dy) * (1 - dx)), (top, right, (1 - dy) * dx), (bottom, left, dy * (1 - dx)),
            (bottom, right, dy * dx)]  # fmt: skip


def _look(c: Lowering, image: Node, p: _SamplePoints, row: Term, column: Term) -> Term:
    """float32 [boxes, height, width, C]."""
    return wrap(c.b, c.b.cast(c.b.gather(image, [p.image, _whole(row), _whole(column)], [0, 1, 2]), DType.F32))


@op("CropAndResize", fixed=["crop_size"], T=CROP_TYPES)
def crop_and_resize(c: Lowering) -> Node:
    """float32 crops, whatever the type of the images."""
    image, crop = c.input("image"), extents(c, "crop_size")
    if image.rank != 4 or len(crop) != 2 or not all(c.at_least(n, 1) for n in crop):
        raise c.error("the image must have rank 4, and crop_size two positive numbers")
    p = _places(c, image.shape, crop)
    if _crop_method(c) == "nearest":
        total = _look(c, image, p, _nearest(p.y), _nearest(p.x))
    else:
        (tl, tr, bl, br), dy, dx = _corners(c, image, p)
        top, bottom = tl + (tr - tl) * dx, bl + (br - bl) * dx
        total = top + (bottom - top) * dy
    inside = _over_channels(c, p.inside, total.node.shape)
    return inside.where(total, c.attr("extrapolation_value", 0.0)).node


def _corners(c: Lowering, image: Node, p: _SamplePoints) -> tuple[list[Term], Term, Term]:
    """The four neighbours' values, and how far each place is from the first of them, all [boxes, height, width, C]."""
    looks = [_look(c, image, p, row, column) for row, column, _ in _neighbours(p)]
    shape = looks[0].node.shape
    return looks, _over_channels(c, p.y - _floor(p.y), shape), _over_channels(c, p.x - _floor(p.x), shape)


@op("CropAndResizeGradImage", fixed=["image_size"], T=(DType.F32,))
def crop_and_resize_gradient(c: Lowering) -> Node:
    """What each element of the images gave to the crops, added up."""
    b, dy, size = c.b, c.input("grads"), extents(c, "image_size")
    c.require(dy.rank == 4 and len(size) == 4, "grads must have rank 4, and image_size four numbers")
    p = _places(c, tuple(size), dy.shape[1:3])
    if _crop_method(c) == "nearest":
        one = wrap(b, b.const(1, DType.F32, p.image.shape))
        shares = [(_nearest(p.y), _nearest(p.x), one)]
    else:
        shares = _neighbours(p)
    image = b.select(p.inside.node, p.image, b.const(-1, DType.I32))  # out of range: left out
    total = b.const(0, DType.F32, size)
    for row, column, weight in shares:
        part = wrap(b, dy) * _over_channels(c, weight, dy.shape)
        total = b.scatter(total, part.node, [image, _whole(row), _whole(column)], [0, 1, 2], "add")
    return total


@op("CropAndResizeGradBoxes", T=CROP_TYPES)
def crop_and_resize_gradient_of_boxes(c: Lowering) -> Node:
    """float32 [boxes, 4]; bilinear, as in TensorFlow."""
    b, dy, image = c.b, c.input("grads"), c.input("image")
    c.require(dy.rank == 4 and image.rank == 4, "grads and image must have rank 4")
    p = _places(c, image.shape, dy.shape[1:3])
    (tl, tr, bl, br), down, across = _corners(c, image, p)
    inside = _over_channels(c, p.inside, dy.shape)
    along = ((bl - tl) * (1 - across) + (br - tr) * across, (tr - tl) * (1 - down) + (br - bl) * down)
    columns: list[Node] = [b.const(0, DType.F32)] * 4
    for k, (slope, line) in enumerate(zip(along, (p.rows, p.columns), strict=True)):
        share = wrap(b, b.broadcast_in_dim(line, dy.shape, [k + 1]))
        moved = inside.where(wrap(b, dy) * slope * _last(c, image.shape[k + 1]), 0)
        for side, part in ((0, 1 - share), (2, share)):
            columns[k + side] = (moved * part).sum((1, 2, 3)).flat((2, 3)).node
    return b.concat(columns, 1)


# -- projective transforms ------------------------------------------------------------------------------------


def _folded(place: Term, size: int, mode: str) -> Term:
    """A coordinate taken into the image, as the fill mode says; CONSTANT leaves it outside."""
    if mode == "CONSTANT":
        return place
    low, high = place.test("lt", 0), place.test("gt", size - 1)
    if mode == "REFLECT" and size > 1:
        turns = (place / (2.0 * size)).map("trunc") * (2.0 * size)
        below = place - turns
        below = below.test("lt", -size).where(below + 2.0 * size, -below - 1)
        above = place - turns
        above = above.test("ge", size).where(2.0 * size - 1 - above, above)
        place = low.where(below, high.where(above, place))
    elif mode == "WRAP" and size > 1:
        turns = (place / float(size - 1)).map("trunc") * float(size)
        place = low.where(place - turns + float(size), high.where(place - turns, place))
    elif mode in ("REFLECT", "WRAP"):
        place = place * 0
    elif mode != "NEAREST":
        raise ValueError(mode)
    return place.max(0).min(size - 1)


def _away(x: Term) -> Term:
    """The whole number nearest to x; halves go away from 0."""
    low = _floor(x.map("abs"))
    size = (x.map("abs") - low).test("ge", 0.5).where(low + 1, low)
    return x.test("lt", 0).where(-size, size)


@op("ImageProjectiveTransformV2", "ImageProjectiveTransformV3", fixed=["output_shape"], dtype=TRANSFORM_TYPES)
def projective_transform(c: Lowering) -> Node:
    """The element at (x, y) of the result is that of the image where the transform takes it.

    It looks at ((t0 x + t1 y + t2) / k, (t3 x + t4 y + t5) / k) with k = t6 x + t7 y + 1.
    """
    b, image, transforms = c.b, c.input("images"), c.input("transforms")
    wanted = extents(c, "output_shape")
    if image.rank != 4 or len(wanted) != 2 or transforms.rank != 2 or transforms.shape[1] != 8:
        raise c.error("images must have rank 4, transforms be [images or 1, 8], and output_shape two numbers")
    c.require(transforms.shape[0] in (1, image.shape[0]), "there must be one transform, or one for each image")
    mode, method = c.attr("fill_mode", "CONSTANT"), c.attr("interpolation", "NEAREST")
    if mode not in ("CONSTANT", "REFLECT", "WRAP", "NEAREST") or method not in ("NEAREST", "BILINEAR"):
        raise c.error(f"fill_mode {mode!r} or interpolation {method!r} is not known")
    height, width, _ = constant_shape(c, image, 1, "images are turned and moved by their size in the fill modes")
    shape: Shape = (image.shape[0], *wanted)
    y, x = _line(c, shape, 1), _line(c, shape, 2)
    t = [_column(c, transforms, k, shape) for k in range(8)]
    scale = t[6] * x + t[7] * y + 1
    across = _folded((t[0] * x + t[1] * y + t[2]) / scale, width, mode)
    down = _folded((t[3] * x + t[4] * y + t[5]) / scale, height, mode)
    fill = b.reshape(c.input("fill_value"), ()) if "fill_value" in c.arg_slices else b.const(0, DType.F32)
    fill = b.cast(fill, image.dtype)
    which = b.iota(shape, 0, DType.I32)

    def look(row: Term, column: Term) -> Node:
        """The image's values, `fill` outside."""
        inside = row.test("ge", 0).test("and", row.test("le", height - 1))
        inside = inside.test("and", column.test("ge", 0)).test("and", column.test("le", width - 1))
        seen = b.gather(image, [which, _whole(row), _whole(column)], [0, 1, 2])
        return b.select(_over_channels(c, inside, seen.shape).node, seen, fill)

    if method == "NEAREST":
        out = look(_away(down), _away(across))
    else:
        top, left = _floor(down), _floor(across)
        bottom, right = top + 1, left + 1

        def mixed(row: Term) -> Term:
            first, second = (Term(b, b.cast(look(row, column), DType.F32)) for column in (left, right))
            kept = first.node.shape
            return _over_channels(c, right - across, kept) * first + _over_channels(c, across - left, kept) * second

        upper, lower = mixed(top), mixed(bottom)
        kept = upper.node.shape
        weighted = _over_channels(c, bottom - down, kept) * upper + _over_channels(c, down - top, kept) * lower
        out = weighted.done(image.dtype)
    nowhere = _over_channels(c, scale.test("eq", 0), out.shape)
    return b.select(nowhere.node, fill, out)
