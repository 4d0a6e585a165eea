"""XLA's dynamic slices against NumPy, with XLA's rule for starts that are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import BF16, F32, arrays, evaluate, lower_op, quick, refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
TYPES = st.sampled_from([F32, BF16, np.dtype("int32"), np.dtype("int64"), np.dtype("bool")])


def places(shape: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    """The slice that XLA takes: starts clamped to [0, dimension - size]."""
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(a, a + k) for a, k in zip(at, sizes, strict=True))


@quick
@given(st.data(), SHAPES, TYPES, st.sampled_from([np.int32, np.int64]))
def test_dynamic_slice(data: Any, shape: Any, dtype: Any, index: Any) -> None:
    x = data.draw(arrays(dtype, shape, low=0))
    sizes = [data.draw(st.integers(0, n)) for n in shape]
    starts = [data.draw(st.integers(-5, 9)) for _ in shape]
    for (got,) in evaluate(
        lambda x, s, k: gen_xla_ops.xla_dynamic_slice(x, s, k), x, np.array(starts, index), np.array(sizes, index)
    ):
        np.testing.assert_array_equal(got, x[places(shape, starts, sizes)])


@quick
@given(st.data(), SHAPES, TYPES, st.sampled_from([np.int32, np.int64]))
def test_dynamic_update_slice(data: Any, shape: Any, dtype: Any, index: Any) -> None:
    x = data.draw(arrays(dtype, shape, low=0))
    sizes = [data.draw(st.integers(0, n)) for n in shape]
    update = data.draw(arrays(dtype, tuple(sizes), low=0))
    starts = [data.draw(st.integers(-5, 9)) for _ in shape]
    want = x.copy()
    want[places(shape, starts, sizes)] = update
    for (got,) in evaluate(
        lambda x, u, s: gen_xla_ops.xla_dynamic_update_slice(x, u, s), x, update, np.array(starts, index)
    ):
        np.testing.assert_array_equal(got, want)


def test_starts_are_no_part_of_the_program() -> None:
    from habana_tf.resolver.key_text import program_text

    x, update = np.zeros((2, 8, 3), F32), np.ones((2, 1, 3), F32)

    def text(at: int) -> str:
        start = np.array([0, at, 0], np.int32)
        return program_text(lower_op(gen_xla_ops.xla_dynamic_update_slice, x, update, start)[0])

    assert text(0) == text(5)


@pytest.mark.parametrize("shape", [(3, 1), (2,), (2, 2, 2)])
def test_an_update_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    x, start = np.zeros((2, 3), F32), np.zeros(2, np.int32)
    assert "XlaDynamicUpdateSlice" in refusal(gen_xla_ops.xla_dynamic_update_slice, x, np.zeros(shape, F32), start)
