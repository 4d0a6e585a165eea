"""Diagonals and bands of matrices against stock TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from harness import BACKENDS, BF16, F32, arrays, check, compare, quick, refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from habana_tf.cluster.lower import lower
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.clusters.writer import of_node

raw = tf.raw_ops
I32 = np.dtype("int32")


@quick
@given(st.data(), hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=4))
def test_matrix_band_part(data, shape):
    x = data.draw(arrays(F32, shape))
    lower, upper = (np.int64(data.draw(st.integers(-1, n))) for n in shape[-2:])
    check(lambda x, lo, hi: raw.MatrixBandPart(input=x, num_lower=lo, num_upper=hi), x, lower, upper)


@quick
@given(st.data(), hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=4))
def test_diagonals(data, shape):
    x = data.draw(arrays(F32, shape))
    n = min(shape[-2:])
    d = data.draw(arrays(F32, (*shape[:-2], n)))
    zero = np.int32(0)
    check(lambda x: raw.MatrixDiagPart(input=x), x)
    check(lambda x, k, p: raw.MatrixDiagPartV3(input=x, k=k, padding_value=p), x, zero, np.float32(0))
    check(lambda x, d: raw.MatrixSetDiag(input=x, diagonal=d), x, d)
    check(lambda x, d, k: raw.MatrixSetDiagV3(input=x, diagonal=d, k=k), x, d, zero)
    check(lambda d: raw.MatrixDiag(diagonal=d), d)
    for rows, columns in ((-1, -1), shape[-2:], (n + 2, n)):
        check(
            lambda d, k, r, c, p: raw.MatrixDiagV3(diagonal=d, k=k, num_rows=r, num_cols=c, padding_value=p),
            d, zero, np.int32(rows), np.int32(columns), np.float32(9),
        )  # fmt: skip


def check_in_an_old_graph(op: str, **inputs: Any) -> None:
    """An op that TensorFlow runs in graphs of before version 14 alone, which no call makes any more."""
    old = tf.compat.v1.GraphDef()
    old.versions.producer = 13
    for name, x in inputs.items():
        node = old.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = tf.as_dtype(x.dtype).as_datatype_enum
    node = old.node.add(name="it", op=op, input=list(inputs))
    node.attr["T"].type = tf.as_dtype(next(iter(inputs.values())).dtype).as_datatype_enum
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        tf.import_graph_def(old, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            want = session.run("it:0", {f"{name}:0": x for name, x in inputs.items()})
    arrays = list(inputs.values())
    program = lower(parse(of_node(node.SerializeToString())), [x.shape for x in arrays], [None] * len(arrays))
    for backend in BACKENDS:
        compare(backend(program, arrays, [])[0], want)


@quick
@given(st.data(), hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4), st.sampled_from([F32, I32]))
def test_diagonals_in_old_graphs(data, shape, dtype):
    x = data.draw(arrays(dtype, shape))
    d = data.draw(arrays(dtype, (*shape[:-2], min(shape[-2:]))))
    check_in_an_old_graph("BatchMatrixDiag", diagonal=d)
    check_in_an_old_graph("BatchMatrixDiagPart", input=x)
    check_in_an_old_graph("BatchMatrixSetDiag", input=x, diagonal=d)


@st.composite
def bands(draw: Any) -> tuple[tuple[int, ...], Any, str]:
    """The shape of a stack of matrices, diagonals that lie in it, and an alignment."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=4))
    low = draw(st.integers(1 - shape[-2], shape[-1] - 1))
    high = draw(st.integers(low, shape[-1] - 1))
    align = "_".join(draw(st.sampled_from(["LEFT", "RIGHT"])) for _ in range(2))
    return shape, np.array(low if low == high else [low, high], np.int32), align


@quick
@given(st.data(), bands(), st.sampled_from([F32, BF16, I32]))
def test_bands(data, band, dtype):
    shape, k, align = band
    x, padding = data.draw(arrays(dtype, shape)), np.array(7, dtype)
    check(lambda x, k, p: raw.MatrixDiagPartV3(input=x, k=k, padding_value=p, align=align), x, k, padding)
    check(lambda x, k, p: raw.MatrixDiagPartV2(input=x, k=k, padding_value=p), x, k, padding)
    d = data.draw(arrays(dtype, raw.MatrixDiagPartV3(input=x, k=k, padding_value=padding, align=align).shape))
    check(lambda x, d, k: raw.MatrixSetDiagV3(input=x, diagonal=d, k=k, align=align), x, d, k)
    check(lambda x, d, k: raw.MatrixSetDiagV2(input=x, diagonal=d, k=k), x, d, k)
    for sizes in (shape[-2:], (-1, -1)):
        rows, columns = map(np.int32, sizes)
        check(
            lambda d, k, r, c, p: raw.MatrixDiagV3(
                diagonal=d, k=k, num_rows=r, num_cols=c, padding_value=p, align=align
            ),
            d, k, rows, columns, padding,
        )  # fmt: skip
        check(
            lambda d, k, r, c, p: raw.MatrixDiagV2(diagonal=d, k=k, num_rows=r, num_cols=c, padding_value=p),
            d, k, rows, columns, padding,
        )  # fmt: skip


def test_a_band_outside_of_the_matrix_is_refused():
    part = lambda x, k, p: raw.MatrixDiagPartV3(input=x, k=k, padding_value=p)
    x = np.zeros((3, 4), F32)
    assert "do not lie in matrices of 3 rows" in refusal(part, x, np.int32(4), np.float32(0))
    assert "lowest and the highest" in refusal(part, x, np.array([2, 1], np.int32), np.float32(0))


@quick
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3), st.sampled_from([F32, I32]))
def test_diagonals_of_tensors(data, shape, dtype):
    check(lambda d: raw.Diag(diagonal=d), data.draw(arrays(dtype, shape)))
    check(lambda x: raw.DiagPart(input=x), data.draw(arrays(dtype, (*shape, *shape))))
