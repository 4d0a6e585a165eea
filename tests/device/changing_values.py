"""Ops whose shapes follow from data: calls that have other data each time, one for every row of the op table of which
real programs give the fixed inputs as data. `test_values_that_change.py` tests them, `benchmarks/changing_values.py`
measures them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

ROWS = 30
raw = tf.raw_ops


def _rows(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape or (ROWS, 3)).astype(np.float32)


def _ids(rng: Any, k: int) -> Any:
    return np.sort(rng.integers(0, 4 + k, ROWS)).astype(np.int32)


def _halves(rng: Any) -> tuple[Any, Any]:
    order = rng.permutation(ROWS).astype(np.int32)
    return order[: ROWS // 3], order[ROWS // 3 :]


def _parts(rng: Any, k: int, of: int) -> Any:
    """Three sizes that add up to a number."""
    a, b = sorted(rng.integers(0, of + 1, 2))
    return np.array([a, b - a, of - b], np.int32)


def _boxes(rng: Any) -> tuple[Any, Any, Any]:
    corners = np.sort(rng.random((4, 2, 2)).astype(np.float32), 1).reshape(4, 4)
    return _rows(rng, 2, 9, 11, 3), corners, np.int32([0, 1, 1, 0])


def _factors(rng: Any, *axes: str) -> tuple[Any, ...]:
    """Operands whose axes of one letter have one size."""
    size = {c: int(rng.integers(2, 60)) for c in "mknbj"}
    return tuple(_rows(rng, *(size[c] for c in each)) / np.float32(8) for each in axes)


def _images(rng: Any) -> tuple[Any, Any, Any]:
    shape = (int(rng.integers(1, 4)), int(rng.integers(5, 40)), int(rng.integers(5, 40)), 3)
    return _rows(rng, *shape), _rows(rng, 3, 3, 3, 8), _rows(rng, 8)


def _gradients(call: Callable[..., Any], *of: Any) -> list[Any]:
    """A value and what is asked of it in training."""
    with tf.GradientTape() as tape:
        tape.watch(of)
        y = call(*of)
        total = tf.reduce_sum(tf.sin(y))
    return [y, *tape.gradient(total, of)]


Given = tuple[Any, ...]
CASES: dict[str, tuple[Callable[[Any, int], Given], Callable[..., Any]]] = {
    # segments and stitches
    "segment_sum": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_sum),
    "segment_mean": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_mean),
    "segment_max": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_max),
    "segment_min": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_min),
    "segment_prod": (lambda rng, k: (_rows(rng), _ids(rng, k)), tf.math.segment_prod),
    "sparse_segment_sum": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), _ids(rng, k)), tf.sparse.segment_sum),
    "sparse_segment_mean": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), _ids(rng, k)), tf.sparse.segment_mean),
    "sparse_segment_sqrt_n": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), _ids(rng, k)), tf.sparse.segment_sqrt_n),
    "sparse_segment_sum_with_num_segments": (
        lambda rng, k: (_rows(rng, 9, 3), rng.integers(0, 9, ROWS), np.sort(rng.integers(0, 4, ROWS)), 5 + k),
        lambda x, i, s, n: tf.sparse.segment_sum(x, i, s, num_segments=n)),
    "sparse_segment_mean_grad": (
        lambda rng, k: (_rows(rng, 4, 3), rng.integers(0, 5, 9), np.sort(rng.integers(0, 4, 9)), np.int32(5 + k)),
        lambda x, i, s, n: raw.SparseSegmentMeanGrad(grad=x, indices=i, segment_ids=s, output_dim0=n)),
    "unsorted_segment_sum": (
        lambda rng, k: (_rows(rng), rng.integers(-1, 5 + k, ROWS), 5 + k), tf.math.unsorted_segment_sum),
    "unsorted_segment_max": (
        lambda rng, k: (_rows(rng), rng.integers(0, 5 + k, ROWS), 5 + k), tf.math.unsorted_segment_max),
    "dynamic_stitch": (
        lambda rng, k: (*_halves(rng), _rows(rng, ROWS // 3, 3), _rows(rng, ROWS - ROWS // 3, 3)),
        lambda a, b, x, y: tf.dynamic_stitch([a, b], [x, y])),
    "embedding_lookup_partitioned": (
        lambda rng, k: (rng.integers(0, 12, ROWS), *(_rows(rng, 4, 3) for _ in range(3))),
        lambda i, *tables: tf.nn.embedding_lookup(list(tables), i)),
    # parts of tensors
    "slice": (lambda rng, k: (_rows(rng), np.int32([k % 5 + 1, 0]), np.int32([k % 24 + 1, 2])), tf.slice),
    "strided_slice": (lambda rng, k: (_rows(rng, 200, 2), k % 7, k % 7 + k + 1), lambda x, a, z: x[a:z]),
    "strided_slice_one": (lambda rng, k: (_rows(rng, 200, 2), np.int32(k)), lambda x, a: x[a]),
    "strided_slice_from_back": (lambda rng, k: (_rows(rng, 200, 2), np.int32(-k - 1)), lambda x, a: x[a]),
    "strided_slice_grad": (
        lambda rng, k: (_rows(rng, k + 1, 2), np.int32([200, 2]), np.int32([k % 7]), np.int32([k % 7 + k + 1])),
        lambda x, s, a, z: raw.StridedSliceGrad(shape=s, begin=a, end=z, strides=[1], dy=x)),
    "strided_slice_update": (
        lambda rng, k: (_rows(rng, 200, 2), _rows(rng, k + 1, 2), np.int32([k % 7]), np.int32([k % 7 + k + 1])),
        lambda x, v, a, z: raw.TensorStridedSliceUpdate(input=x, begin=a, end=z, strides=[1], value=v)),
    "split_v": (lambda rng, k: (_rows(rng, 120, 2), _parts(rng, k, 120)), lambda x, s: tf.split(x, s)),
    "split_v_rest": (
        lambda rng, k: (_rows(rng, 120, 2), np.int32([k + 1, -1])), lambda x, s: tf.split(x, s, num=2)),
    "gather": (lambda rng, k: (_rows(rng), rng.integers(0, ROWS, 3 + k)), tf.gather),
    "top_k": (lambda rng, k: (_rows(rng, 3, 140), k + 1), tf.math.top_k),
    "reverse_sequence_axis": (lambda rng, k: (_rows(rng, 4, 5, 6), np.int32([k % 3])), tf.reverse),
    "roll": (lambda rng, k: (_rows(rng, 4, 105), np.int32(k), np.int32(k % 2)), tf.roll),
    # tensors made
    "fill": (lambda rng, k: (np.int32([k + 1, 3]), np.float32(k)), tf.fill),
    "range": (lambda rng, k: (k + 1,), tf.range),
    "range_from": (lambda rng, k: (k, 3 * k + 5, k % 3 + 1), tf.range),
    "range_of_floats": (lambda rng, k: (np.float32(k + 1.5),), tf.range),
    "lin_space": (lambda rng, k: (np.float32(0), np.float32(k + 1), k + 2), tf.linspace),
    "one_hot": (lambda rng, k: (rng.integers(0, 5, 9), 5 + k), tf.one_hot),
    "scatter_nd": (
        lambda rng, k: (rng.integers(0, 5, (9, 1)), _rows(rng, 9, 3), np.int64([5 + k, 3])), tf.scatter_nd),
    "bincount": (lambda rng, k: (rng.integers(0, 5 + k, 40), np.int32(5 + k), np.zeros(0, np.float32)),
                 lambda i, n, w: raw.Bincount(arr=tf.cast(i, tf.int32), size=n, weights=w)),
    "dense_bincount": (lambda rng, k: (rng.integers(0, 5 + k, 40), np.int64(5 + k), np.zeros(0, np.float32)),
                       lambda i, n, w: raw.DenseBincount(input=i, size=n, weights=w)),
    "stateless_uniform": (
        lambda rng, k: (np.int32([k + 1, 3]), np.int32([k, 7])), tf.random.stateless_uniform),
    "stateless_categorical": (
        lambda rng, k: (_rows(rng, 2, 5), np.int32(k + 1), np.int32([k, 7])), tf.random.stateless_categorical),
    "lin_space_alone": (
        lambda rng, k: (np.float32(k), np.float32(9), np.int32(k + 1)),
        lambda a, z, n: raw.LinSpace(start=a, stop=z, num=n)),
    # shapes changed
    "reshape": (lambda rng, k: (_rows(rng, 6 * (k + 1)), np.int32([k + 1, 6])), tf.reshape),
    "broadcast_to": (lambda rng, k: (_rows(rng, 1, 3), np.int32([k + 1, 3])), tf.broadcast_to),
    "broadcast_shapes": (lambda rng, k: (np.int32([k + 1, 1]), np.int32([1, 2 * k + 1])),
                         lambda a, b: raw.BroadcastGradientArgs(s0=a, s1=b)),
    "tile": (lambda rng, k: (_rows(rng, 2, 3), np.int32([k + 1, 2])), tf.tile),
    "transpose": (lambda rng, k: (_rows(rng, 4, 5, 6), np.random.default_rng(k).permutation(3).astype(np.int32)),
                  tf.transpose),
    "pad": (lambda rng, k: (_rows(rng), np.int32([[k, k + 1], [1, k]])), tf.pad),
    "mirror_pad": (lambda rng, k: (_rows(rng, 120, 3), np.int32([[k + 1, k + 2], [0, 1]])),
                   lambda x, p: tf.pad(x, p, "REFLECT")),
    "mirror_pad_grad": (
        lambda rng, k: (_rows(rng, 123 + 2 * k, 4), np.int32([[k + 1, k + 2], [0, 1]])),
        lambda x, p: raw.MirrorPadGrad(input=x, paddings=p, mode="REFLECT")),
    "space_to_batch": (
        lambda rng, k: (_rows(rng, 1, 8, 8, 2), np.int32([[0, 2 * k], [2 * k, 0]])),
        lambda x, p: tf.space_to_batch(x, [2, 2], p)),
    "batch_to_space": (
        lambda rng, k: (_rows(rng, 4, 80, 3, 1), np.int32([[k, 0], [0, 1]])),
        lambda x, p: tf.batch_to_space(x, [2, 2], p)),
    # images
    "resize": (lambda rng, k: (_rows(rng, 1, 5, 6, 2), np.int32([3 + k, 4 + k])), tf.image.resize),
    "resize_nearest": (lambda rng, k: (_rows(rng, 1, 5, 6, 2), np.int32([3 + k, 4 + k])),
                       lambda x, s: tf.image.resize(x, s, "nearest")),
    "resize_nearest_grad": (lambda rng, k: (_rows(rng, 1, 5, 6, 2), np.int32([3 + k, 4 + k])),
                            lambda x, s: raw.ResizeNearestNeighborGrad(grads=x, size=s)),
    "resize_bicubic": (lambda rng, k: (_rows(rng, 1, 5, 6, 2), np.int32([3 + k, 4 + k])),
                       lambda x, s: tf.image.resize(x, s, "bicubic")),
    "resize_area": (lambda rng, k: (_rows(rng, 1, 5, 6, 2), np.int32([3 + k, 4 + k])),
                    lambda x, s: tf.image.resize(x, s, "area")),
    "crop_and_resize": (
        lambda rng, k: (*_boxes(rng), np.int32([k + 1, k + 2])), tf.image.crop_and_resize),
    "crop_and_resize_nearest": (
        lambda rng, k: (*_boxes(rng), np.int32([k + 1, k + 2])),
        lambda x, b, i, s: tf.image.crop_and_resize(x, b, i, s, "nearest")),
    "crop_and_resize_grad_image": (
        lambda rng, k: (_rows(rng, 4, 3, 5, 2), *_boxes(rng)[1:], np.int32([2, k + 3, k + 5, 2])),
        lambda g, b, i, s: raw.CropAndResizeGradImage(grads=g, boxes=b, box_ind=i, image_size=s, T=tf.float32)),
    "projective_transform": (
        lambda rng, k: (_rows(rng, 2, 5, 6, 1), np.float32([[1, 0, k % 3, 0, 1, 1, 0, 0]]), np.int32([k + 1, k + 2])),
        lambda x, t, s: raw.ImageProjectiveTransformV3(
            images=x, transforms=t, output_shape=s, fill_value=0.0, interpolation="BILINEAR")),
    # matrices
    "matrix_diag": (
        lambda rng, k: (_rows(rng, 3, 5), np.int32(k - 50)),
        lambda x, k: raw.MatrixDiagV3(diagonal=x, k=k, num_rows=-1, num_cols=-1, padding_value=0.0)),
    "matrix_diag_sized": (
        lambda rng, k: (_rows(rng, 3, 5), np.int32(5 + k)),
        lambda x, n: raw.MatrixDiagV3(diagonal=x, k=0, num_rows=n, num_cols=5, padding_value=0.0)),
    "matrix_diag_part": (
        lambda rng, k: (_rows(rng, 2, 60, 60), np.int32([k - 50, k - 48])),
        lambda x, k: raw.MatrixDiagPartV3(input=x, k=k, padding_value=0.0)),
    "matrix_set_diag": (
        lambda rng, k: (_rows(rng, 2, 60, 60), _rows(rng, 2, 60 - abs(k - 50)), np.int32(k - 50)),
        lambda x, d, k: raw.MatrixSetDiagV3(input=x, diagonal=d, k=k)),
    "sparse_times_dense": (
        lambda rng, k: (np.stack([np.arange(9)] * 2, 1), _rows(rng, 9), np.int64([9 + k, 9]), _rows(rng, 9, 2)),
        lambda i, v, s, d: tf.sparse.sparse_dense_matmul(tf.SparseTensor(i, v, s), d)),
    # products and pools whose sizes are given as values
    "conv_input_gradient": (
        lambda rng, k: (np.int32([k + 1, 7, 7, 3]), _rows(rng, 3, 3, 3, 4), _rows(rng, k + 1, 7, 7, 4)),
        lambda s, w, g: raw.Conv2DBackpropInput(
            input_sizes=s, filter=w, out_backprop=g, strides=[1] * 4, padding="SAME")),
    "avg_pool_gradient": (
        lambda rng, k: (np.int32([k + 1, 8, 8, 3]), _rows(rng, k + 1, 4, 4, 3)),
        lambda s, g: raw.AvgPoolGrad(orig_input_shape=s, grad=g, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
                                     padding="VALID")),
    "max_pool": (
        lambda rng, k: (_rows(rng, 1, 120, 4, 2), np.int32([1, k + 1, 2, 1])),
        lambda x, s: raw.MaxPoolV2(input=x, ksize=s, strides=[1, 1, 1, 1], padding="VALID")),
    "max_pool_gradient": (
        lambda rng, k: (_rows(rng, 1, 70, 4, 2), _rows(rng, 1, 70 - k % 60, 3, 2), np.int32([1, k % 60 + 1, 2, 1])),
        lambda x, g, s: raw.MaxPoolGradV2(orig_input=x, orig_output=raw.MaxPoolV2(
            input=x, ksize=s, strides=[1, 1, 1, 1], padding="VALID"), grad=g, ksize=s, strides=[1, 1, 1, 1],
            padding="VALID")),
    # products of tensors whose sizes change
    "product": (lambda rng, k: _factors(rng, "mk", "kn"), lambda x, y: tf.nn.relu(x @ y + 1.0)),
    "product_alone": (lambda rng, k: _factors(rng, "mk", "kn"), tf.matmul),
    "product_transposed": (
        lambda rng, k: _factors(rng, "mk", "nk"), lambda x, y: tf.matmul(x, y, transpose_b=True) * 2.0),
    "product_and_gradients": (lambda rng, k: _factors(rng, "mk", "kn"), lambda x, y: _gradients(tf.matmul, x, y)),
    "product_batched": (lambda rng, k: _factors(rng, "bmk", "bkn"), lambda x, y: tf.exp(-tf.abs(x @ y))),
    "product_of_rows_and_vector": (
        lambda rng, k: _factors(rng, "mk", "k"), lambda x, y: tf.linalg.matvec(x, y) + 1.0),
    "product_einsum": (
        lambda rng, k: _factors(rng, "bmk", "nkj"), lambda x, y: tf.einsum("bmk,nkj->jbnm", x, y) + 1.0),
    "product_bf16": (
        lambda rng, k: _factors(rng, "mk", "kn"),
        lambda x, y: tf.cast(tf.cast(x, tf.bfloat16) @ tf.cast(y, tf.bfloat16), tf.float32)),
    "conv": (
        lambda rng, k: _images(rng), lambda x, w, b: tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME") + b)),
    "conv_strided": (
        lambda rng, k: _images(rng), lambda x, w, b: tf.nn.conv2d(x, w, 2, "VALID") + b),
    "conv_and_gradients": (
        lambda rng, k: _images(rng), lambda *of: _gradients(lambda x, w, b: tf.nn.conv2d(x, w, 1, "SAME") + b, *of)),
    # an axis as data: as many values as a tensor has axes
    "sum_axis": (lambda rng, k: (_rows(rng, 4, 5, 6), np.int32([k % 3 - 1])), tf.reduce_sum),
    "arg_max_axis": (lambda rng, k: (_rows(rng, 4, 5, 6), np.int32(k % 3)), tf.argmax),
    "cumsum_axis": (lambda rng, k: (_rows(rng, 4, 5, 6), np.int32(k % 3)), tf.cumsum),
    "concat_axis": (lambda rng, k: (_rows(rng, 4, 4), np.int32(k % 2)), lambda x, a: tf.concat([x, x], a)),
    "gather_axis": (lambda rng, k: (_rows(rng, 4, 4), np.int32(k % 2)), lambda x, a: tf.gather(x, [1, 2], axis=a)),
    "expand_dims": (lambda rng, k: (_rows(rng, 4, 4), np.int32(k % 3)), tf.expand_dims),
}  # fmt: skip
