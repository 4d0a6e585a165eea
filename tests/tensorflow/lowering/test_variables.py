"""Ops on variables against stock TensorFlow on the CPU: values afterwards and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, quick
from hypothesis import given
from hypothesis import strategies as st
from resources import check, lowered, run

from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.ir import interpreter

DTYPES = [F32, BF16, np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)]
INDEX = [np.int32, np.int64]


def numbers(shape: Any, dtype: Any, seed: int = 0) -> Any:
    """Small whole numbers from 1 on: exact in every type, and no division by zero."""
    return np.random.default_rng([seed, *shape]).integers(1, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["AssignAddVariableOp", "AssignSubVariableOp"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_assign_add_and_sub(op: str, dtype: Any, shape: Any) -> None:
    check(op, {"resource": numbers(shape, dtype)}, {"value": numbers(shape, dtype, 1)})


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(bool)])
def test_gather(dtype: Any, index: Any) -> None:
    x = numbers((4, 3, 2), dtype)
    for indices in (np.array(2), np.array([3, 0, 0]), np.zeros((0,)), np.array([[1, 2], [0, 3]])):
        check("ResourceGather", {"resource": x}, {"indices": indices.astype(index)}, dtype=dtype)
    batched = np.array([[0, 2], [1, 1], [2, 0], [0, 0]], index)
    check("ResourceGather", {"resource": x}, {"indices": batched}, dtype=dtype, batch_dims=1)
    for indices in (np.array([[3, 1], [0, 2]]), np.array([1]), np.array([[[3, 2, 1]]])):
        check("ResourceGatherNd", {"resource": x}, {"indices": indices.astype(index)}, dtype=dtype)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Min", "Max", "Update"])
def test_scatter(kind: str, dtype: Any, index: Any) -> None:
    x, once = numbers((5, 2), dtype), np.array([[3], [0]], index)
    repeated = np.array([4, 1, 4], index)
    op = f"ResourceScatter{kind}"
    check(op, {"resource": x}, {"indices": once, "updates": numbers((2, 1, 2), dtype, 1)})
    check(op, {"resource": x}, {"indices": once, "updates": numbers((), dtype, 1)})
    check(op, {"resource": x}, {"indices": np.zeros((0,), index), "updates": numbers((0, 2), dtype)})
    if dtype != BF16:  # TensorFlow rounds between the updates of one element
        check(op, {"resource": x}, {"indices": repeated, "updates": numbers((3, 2), dtype, 1)})


@pytest.mark.parametrize("shape", [(1, 2), (1,), (2,)])
def test_scatter_refuses_updates_without_a_row_for_each_index(shape: Any) -> None:
    inputs = {"indices": np.array([3, 0, 1]), "updates": np.ones(shape, F32)}
    with pytest.raises(LoweringError, match=r"ResourceScatterAdd .*: updates must be a scalar"):
        lowered("ResourceScatterAdd", {"resource": numbers((5, 2), F32)}, inputs, {}, shaped=False)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Min", "Max", "Update"])
def test_scatter_nd(kind: str, index: Any) -> None:
    x = numbers((4, 3, 2), F32)
    for indices in (np.array([[3, 1], [0, 2]]), np.array([[2], [2]]), np.zeros((0, 2)), np.array([[[3, 2, 1]]])):
        shape = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        updates = {"indices": indices.astype(index), "updates": numbers(shape, F32, 1)}
        check(f"ResourceScatterNd{kind}", {"ref": x}, updates)


def test_out_of_range_reads_zero_and_writes_nothing() -> None:
    x, bad = numbers((3, 2), F32), np.array([1, 3, -1], np.int64)
    for (got,) in run("ResourceGather", {"resource": x}, {"indices": bad}, dtype=F32):
        np.testing.assert_array_equal(got, [x[1], [0, 0], [0, 0]])
    for (got,) in run("ResourceScatterAdd", {"resource": x}, {"indices": bad, "updates": np.ones((3, 2), F32)}):
        np.testing.assert_array_equal(got, x + np.array([[0], [1], [0]]))


def spec(key: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """The operands and masks that Python's slicing syntax gives the op."""
    items = key if isinstance(key, tuple) else (key,)
    begin, end, strides = [], [], []
    masks = dict.fromkeys(["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"], 0)
    for i, item in enumerate(items):
        b, e, s = 0, 0, 1
        if item is Ellipsis:
            masks["ellipsis_mask"] |= 1 << i
        elif item is None:
            masks["new_axis_mask"] |= 1 << i
        elif isinstance(item, slice):
            b, e, s = item.start or 0, item.stop or 0, item.step or 1
            masks["begin_mask"] |= (item.start is None) << i
            masks["end_mask"] |= (item.stop is None) << i
        else:
            b, e = item, item + 1
            masks["shrink_axis_mask"] |= 1 << i
        for values, value in ((begin, b), (end, e), (strides, s)):
            values.append(value)
    arrays = {n: np.array(v, np.int32) for n, v in (("begin", begin), ("end", end), ("strides", strides))}
    return arrays, masks


S = np.s_
SLICES = [
    S[1:3], S[-2:], S[:-1, 1], S[::2, ::-1], S[..., 0], S[1, ..., 1:3], S[None, 1:4, 2], S[3:0:-2, ::2], S[...],
    S[2], S[1, 2, 3], S[5:1:-1], S[1:1], S[-100:100, -1], S[:, 3::-3], S[0, None, :, ..., -1], S[10:],
]  # fmt: skip


@pytest.mark.parametrize("key", SLICES, ids=str)
def test_assignment_to_a_slice(key: Any) -> None:
    x = numbers((5, 4, 4), F32)
    arrays, masks = spec(key)
    value = -numbers(x[key].shape, F32, 1)
    check("ResourceStridedSliceAssign", {"ref": x}, {**arrays, "value": value}, **masks)
    if value.size:
        check("ResourceStridedSliceAssign", {"ref": x}, {**arrays, "value": np.array(-9, F32)}, **masks)


@quick
@given(st.data())
def test_assignment_to_any_range(data: Any) -> None:
    whole = st.integers(-7, 7) | st.none()
    key = tuple(
        slice(data.draw(whole), data.draw(whole), data.draw(st.sampled_from([1, 2, 3, -1, -2]))) for _ in range(2)
    )
    x = numbers((5, 3), np.int64)
    arrays, masks = spec(key)
    value = -numbers(x[key].shape, np.int64, 1)
    check("ResourceStridedSliceAssign", {"ref": x}, {**arrays, "value": value}, **masks)


def test_where_a_slice_begins_is_no_part_of_the_program() -> None:
    """Another begin runs the same program: it is a run-time input."""
    x, value = numbers((5,), F32), np.zeros((2,), F32)
    arrays, masks = spec(S[1:3])
    program, order = lowered("ResourceStridedSliceAssign", {"ref": x}, {**arrays, "value": value}, masks)
    bounds = [id(arrays["begin"]), id(arrays["end"])]
    moved = [a + 1 if id(a) in bounds else a for a in order]
    (got,) = interpreter.run(program, moved)
    np.testing.assert_array_equal(np.flatnonzero(got == 0), [2, 3])


@pytest.mark.parametrize("counter", [(0, 0), (-2, 5), (2**63 - 1, -1), (-1, -1)])
@pytest.mark.parametrize("delta", [0, 3, 2**60 + 1])
def test_generators_skip(counter: Any, delta: int) -> None:
    state = np.array([*counter, 77], np.int64)
    steps = {"alg": np.array(1, np.int32), "delta": np.array(delta, np.uint64)}
    check("RngReadAndSkip", {"resource": state}, steps)
    steps = {"algorithm": np.array(1, np.int64), "delta": np.array(delta, np.int64)}
    check("RngSkip", {"resource": state}, steps)


def test_tensorflow_reads_the_same_state_shape() -> None:
    state = tf.random.Generator.from_seed(3).state
    assert state.shape == (3,)
    assert state.dtype == tf.int64
