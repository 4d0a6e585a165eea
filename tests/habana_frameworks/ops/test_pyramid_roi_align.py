"""RoI align over a pyramid, beside the same thing written box by box and point by point in NumPy, which is what the
`gather` variant of a Mask R-CNN script computes; and beside TensorFlow's own gradients of a variant of stock ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from habana_frameworks.tensorflow import habana_ops
from tests.child import on_hpu

SHAPES = [(16, 12), (8, 6), (4, 3)]
CHANNELS, BOXES, BINS = 3, 7, (5, 4)


def example(seed: int = 0) -> tuple[list[Any], Any, Any]:
    """Maps, boxes in pixels of an image of 64 x 48 (some beyond its edges), and the level of each box."""
    rng = np.random.default_rng(seed)
    maps = [rng.normal(size=(2, *shape, CHANNELS)).astype(np.float32) for shape in SHAPES]
    corner = rng.uniform(-9, 50, (2, BOXES, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 30, (2, BOXES, 2))], -1).astype(np.float32)
    return maps, boxes, rng.integers(0, len(SHAPES), (2, BOXES, 1)).astype(np.int32)


def by_hand(maps: list[Any], count: Any, boxes: Any, levels: Any, ratio: int = 1, unit: Any = None) -> Any:
    """unit: pixels of the map per unit of the box, per axis, for each level."""
    out = np.zeros((2, BOXES, *BINS, CHANNELS), np.float32)
    for image, box in np.ndindex(2, BOXES):
        if box >= count[image]:
            continue
        level = levels[image, box, 0]
        features = maps[level][image]
        scale = [1 / 2 ** (level + 2)] * 2 if unit is None else unit(level)
        y1, x1, y2, x2 = boxes[image, box] * np.array([*scale, *scale], np.float32)
        for i, j in np.ndindex(*BINS):
            for k, m in np.ndindex(ratio, ratio):
                y = y1 + (i + (k + 0.5) / ratio) * (y2 - y1) / BINS[0]
                x = x1 + (j + (m + 0.5) / ratio) * (x2 - x1) / BINS[1]
                out[image, box, i, j] += _bilinear(features, y, x) / ratio**2
    return out


def _bilinear(features: Any, y: float, x: float) -> Any:
    height, width = features.shape[:2]
    y0, x0 = max(0, int(np.floor(y))), max(0, int(np.floor(x)))
    total = np.zeros(features.shape[-1])
    for dy, wy in ((0, 1 - (y - y0)), (1, y - y0)):
        for dx, wx in ((0, 1 - (x - x0)), (1, x - x0)):
            total += wy * wx * features[min(y0 + dy, height - 1), min(x0 + dx, width - 1)]
    return total


def ours(maps: Any, boxes: Any, levels: Any, count: Any = ((BOXES,), (BOXES,)), **options: Any) -> Any:
    return habana_ops.pyramid_roi_align(maps, count, boxes, levels, output_size=list(BINS), **options)


def test_the_features_are_those_of_the_gather_variant() -> None:
    maps, boxes, levels = example()
    np.testing.assert_allclose(
        ours(maps, boxes, levels), by_hand(maps, [BOXES] * 2, boxes, levels), rtol=1e-4, atol=1e-4
    )
    got = ours(maps, boxes, levels, count=[[3], [0]], sampling_ratio=2)
    np.testing.assert_allclose(got, by_hand(maps, [3, 0], boxes, levels, 2), rtol=1e-4, atol=1e-4)


def test_boxes_as_fractions_and_in_pixels_of_the_map() -> None:
    maps, boxes, levels = example()
    small = boxes / 64
    got = ours(maps, small, levels, use_abs_coords=False)
    np.testing.assert_allclose(
        got, by_hand(maps, [BOXES] * 2, small, levels, unit=lambda k: SHAPES[k]), rtol=1e-4, atol=1e-4
    )
    got = ours(maps, boxes / 8, levels, scale_to_level=False)
    np.testing.assert_allclose(
        got, by_hand(maps, [BOXES] * 2, boxes / 8, levels, unit=lambda k: (1, 1)), rtol=1e-4, atol=1e-4
    )


def test_the_gradient_op_is_the_gradient() -> None:
    maps, boxes, levels = example()
    given = [tf.constant(m) for m in maps]
    dy = np.random.default_rng(1).normal(size=(2, BOXES, *BINS, CHANNELS)).astype(np.float32)
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = ours(given, boxes, levels, count=[[BOXES], [4]])
    assert y.shape == (2, BOXES, *BINS, CHANNELS)
    want = tape.gradient(y, given, output_gradients=tf.constant(dy))
    got = habana_ops.pyramid_roi_align_grad_images(
        given, dy, [[BOXES], [4]], boxes, levels, image_pyramid_shapes=[m.shape[1:3] for m in given]
    )
    # The op is linear in the maps, so that <align(maps), dy> by hand is <maps, gradient> for any maps.
    for seed in range(3):
        other, _, _ = example(seed)
        product = float(np.sum(by_hand(other, [BOXES, 4], boxes, levels) * dy))
        assert np.isclose(sum(float(np.sum(m * g)) for m, g in zip(other, got, strict=True)), product, rtol=1e-3)
    for g, w, m in zip(got, want, maps, strict=True):
        assert g.shape == m.shape
        np.testing.assert_allclose(g, tf.convert_to_tensor(w), rtol=1e-4, atol=1e-5)


def test_maps_of_bf16_give_bf16() -> None:
    maps, boxes, levels = example()
    narrow = [tf.cast(m, tf.bfloat16) for m in maps]
    got = ours(narrow, boxes, levels)
    assert got.dtype == tf.bfloat16
    want = by_hand([tf.cast(m, tf.float32).numpy() for m in narrow], [BOXES] * 2, boxes, levels)
    np.testing.assert_allclose(tf.cast(got, tf.float32), want, rtol=2**-7, atol=1e-2)


@on_hpu
def test_it_runs_and_learns_on_hpu() -> None:
    import habana_tf

    maps, boxes, levels = example()

    @tf.function
    def step(given: Any, boxes: Any, levels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = ours(given, boxes, levels)
            loss = tf.reduce_sum(y * y)
        return y, tape.gradient(loss, given)

    y, gradients = step([tf.constant(m) for m in maps], tf.constant(boxes), tf.constant(levels))
    assert "HPU" in y.device
    want = by_hand(maps, [BOXES] * 2, boxes, levels)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    each = [[BOXES], [BOXES]]
    with tf.device("/CPU:0"):
        stock = habana_ops.pyramid_roi_align_grad_images(
            list(map(tf.constant, maps)), tf.constant(2 * want), each, boxes, levels
        )
    for g, w in zip(gradients, stock, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-3)
    refused = habana_tf.placement_report().to_dict()["refused"]
    assert not refused, refused
