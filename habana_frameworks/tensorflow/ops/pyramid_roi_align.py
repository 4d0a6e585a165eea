"""RoI align over a pyramid of feature maps: Mask R-CNN's multilevel crop-and-resize, and its gradient.

Habana's: raw ops of the card, which scripts call through `habana_ops`.
Here: a handful of TensorFlow's ops. For each box the features of one level of the pyramid, sampled bilinearly on a
regular grid of points. The meaning is what the `gather` variant of Habana's Mask R-CNN script computes for the same
boxes and levels:

- Bin i of n along an axis has its points at start + (i + (k + 1/2) / ratio) * length / n, k < ratio = sampling_ratio;
  the bin is their mean.
- A point's neighbours are floor(p), but not below 0, and the next one; both end at the map's last row or column. The
  weight of the second one is p - max(0, floor(p)): a point beyond the end has the last value, a point before the
  beginning is extrapolated from the first two.
- use_abs_coords: boxes are pixels of the image, else fractions of it. scale_to_level: pixels of the image become those
  of the level's map, whose stride is 4 at the first level (the script's levels begin with 2) and doubles with each.

All levels are gathered from one table, so there is no padding to the largest map, and one gather whatever the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["FIRST_STRIDE", "pyramid_roi_align", "pyramid_roi_align_grad_images"]

FIRST_STRIDE = 4.0
"""Pixels of the image per pixel of the first map, along each axis."""


class _Points(NamedTuple):
    """Where the samples of all boxes are: rows of the table of all maps, and the weights there.

    rows, weights: [batch, boxes, height, ratio * 2, width, ratio * 2], the pairs being the two neighbours of a point.
    """

    rows: Any
    weights: Any


def pyramid_roi_align(
    images: Sequence[Any],
    num_boxes: Any,
    boxes: Any,
    box_to_level_map: Any,
    output_size: Sequence[int] = (7, 7),
    sampling_ratio: int = 1,
    use_abs_coords: bool = True,
    scale_to_level: bool = True,
    name: str | None = None,
) -> Any:
    """The features of each box: [batch, boxes, height, width, channels] in the maps' element type.

    images: the pyramid, finest first, each [batch, height, width, channels] of known height and width. num_boxes:
    [batch, 1], how many boxes of each image count; those behind give 0. boxes: [batch, boxes, 4] as (y1, x1, y2, x2).
    box_to_level_map: [batch, boxes, 1], the index in `images` for each box. Computed in fp32. Gradients flow to the
    images alone, as in Habana's op.
    """
    import tensorflow as tf

    with tf.name_scope(name or "PyramidRoiAlign"):
        maps = [tf.convert_to_tensor(image) for image in images]
        shapes = [_size(image.shape[1:3]) for image in maps]
        at = _points(shapes, num_boxes, boxes, box_to_level_map, output_size, sampling_ratio, use_abs_coords,
                     scale_to_level, tf.shape(maps[0])[0])  # fmt: skip

        @tf.custom_gradient
        def pooled(*maps: Any) -> Any:
            table = tf.concat([tf.reshape(image, [-1, image.shape[-1]]) for image in maps], 0)
            taken = tf.cast(tf.gather(table, at.rows), tf.float32) * at.weights[..., tf.newaxis]
            return tf.cast(tf.reduce_sum(taken, [3, 5]), maps[0].dtype), lambda grads: _spread(at, grads, maps, shapes)

        return pooled(*maps)


def pyramid_roi_align_grad_images(
    images: Sequence[Any],
    grads: Any,
    num_boxes: Any,
    boxes: Any,
    box_to_level_map: Any,
    image_pyramid_shapes: Sequence[Any] | None = None,
    sampling_ratio: int = 1,
    use_abs_coords: bool = True,
    scale_to_level: bool = True,
    name: str | None = None,
) -> list[Any]:
    """The gradients of `pyramid_roi_align` with respect to each map, of its shape and element type.

    grads: [batch, boxes, height, width, channels]. image_pyramid_shapes: (height, width) of each map; by default those
    of `images`. The other arguments are those of the forward op.
    """
    import tensorflow as tf

    with tf.name_scope(name or "PyramidRoiAlignGradImages"):
        maps = [tf.convert_to_tensor(image) for image in images]
        grads = tf.convert_to_tensor(grads)
        shapes = [_size(s) for s in image_pyramid_shapes or [image.shape[1:3] for image in maps]]
        at = _points(shapes, num_boxes, boxes, box_to_level_map, grads.shape[2:4], sampling_ratio, use_abs_coords,
                     scale_to_level, tf.shape(maps[0])[0])  # fmt: skip
        return _spread(at, grads, maps, shapes)


def _spread(at: _Points, grads: Any, maps: Sequence[Any], shapes: Sequence[tuple[int, int]]) -> list[Any]:
    """What each element of the maps contributed, times the gradient of what it contributed to."""
    import tensorflow as tf

    batch, channels = tf.shape(maps[0])[0], maps[0].shape[-1]
    spread = tf.cast(grads, tf.float32)[:, :, :, tf.newaxis, :, tf.newaxis, :] * at.weights[..., tf.newaxis]
    sizes = [height * width for height, width in shapes]
    flat = tf.math.unsorted_segment_sum(
        tf.reshape(spread, [-1, channels]), tf.reshape(at.rows, [-1]), batch * sum(sizes)
    )
    out, start = [], 0
    for image, (height, width), size in zip(maps, shapes, sizes, strict=True):
        part = flat[batch * start : batch * (start + size)]
        out.append(tf.cast(tf.reshape(part, [batch, height, width, channels]), image.dtype))
        start += size
    return out


def _size(shape: Any) -> tuple[int, int]:
    """Height and width as numbers. Raises ValueError where they are not known when the graph is made."""
    import tensorflow as tf

    height, width = tf.TensorShape(shape).as_list() if not tf.is_tensor(shape) else tf.get_static_value(shape).tolist()
    if height is None or width is None:
        raise ValueError("pyramid_roi_align: height and width of every map must be known when the graph is made")
    return int(height), int(width)


def _points(
    shapes: Sequence[tuple[int, int]], num_boxes: Any, boxes: Any, levels: Any, output_size: Sequence[int],
    ratio: int, absolute: bool, scaled: bool, batch: Any,
) -> _Points:  # fmt: skip
    import tensorflow as tf

    boxes = tf.stop_gradient(tf.cast(boxes, tf.float32))
    count = tf.shape(boxes)[1]
    level = tf.reshape(tf.cast(levels, tf.int32), [batch, count])
    sizes = tf.constant(shapes, tf.int32)
    areas = [height * width for height, width in shapes]
    starts = tf.constant([sum(areas[:k]) for k in range(len(areas))], tf.int32)
    unit: Any = tf.ones([batch, count])
    if scaled and absolute:
        unit = 1.0 / (FIRST_STRIDE * tf.pow(2.0, tf.cast(level, tf.float32)))
    size = tf.gather(sizes, level)
    axes = []
    for axis, bins in enumerate(output_size):
        extent = tf.cast(size[..., axis], tf.float32)
        whole = unit if absolute else extent
        begin, length = boxes[..., axis] * whole, (boxes[..., axis + 2] - boxes[..., axis]) * whole
        axes.append(_neighbours(begin, length, extent - 1.0, int(bins), ratio))
    (y, y_weight), (x, x_weight) = axes
    first = batch * tf.gather(starts, level) + tf.range(batch)[:, tf.newaxis] * tf.gather(tf.constant(areas), level)
    valid = tf.range(count)[tf.newaxis] < tf.reshape(tf.cast(num_boxes, tf.int32), [batch, 1])
    y_weight = y_weight * tf.cast(valid, tf.float32)[:, :, tf.newaxis, tf.newaxis] / float(ratio * ratio)
    whole_axis = slice(None)
    tall = (*[whole_axis] * 4, None, None)
    wide = (whole_axis, whole_axis, None, None)
    each = (whole_axis, whole_axis, None, None, None, None)
    rows = first[each] + y[tall] * size[..., 1][each] + x[wide]
    return _Points(rows, y_weight[tall] * x_weight[wide])


def _neighbours(begin: Any, length: Any, last: Any, bins: int, ratio: int) -> tuple[Any, Any]:
    """Along one axis: positions and weights [batch, boxes, bins, ratio * 2]."""
    import numpy as np
    import tensorflow as tf

    steps = (np.arange(bins)[:, None] + (np.arange(ratio) + 0.5) / ratio).astype(np.float32)
    many = (slice(None), slice(None), None, None)
    point = begin[many] + steps * length[many] / float(bins)
    low = tf.maximum(tf.floor(point), 0.0)
    second = point - low
    ends = last[many]
    shape = tf.concat([tf.shape(begin), [bins, 2 * ratio]], 0)
    at = tf.reshape(tf.stack([tf.minimum(low, ends), tf.minimum(low + 1.0, ends)], -1), shape)
    return tf.cast(at, tf.int32), tf.reshape(tf.stack([1.0 - second, second], -1), shape)
