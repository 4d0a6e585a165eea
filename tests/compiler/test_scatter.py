"""SCATTER against NumPy: kinds, types, axes, updates to one place and to none, lanes along rows, shared work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from habana_tf.compiler import costs
from habana_tf.compiler.codegen import scatter, scattered_sums
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Op, Program
from tests.compiler.running import check_range, compiled

KINDS: dict[str, Any] = {
    "set": None, "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
TYPES = [DType.F32, DType.I32, DType.U8, DType.I64]


def expected(base: Any, updates: Any, coords: list[Any], axes: list[int], kind: str) -> Any:
    """In order; what is out of range does nothing."""
    out = np.moveaxis(base.copy(), axes, range(len(axes)))
    for i in np.ndindex(*coords[0].shape):
        at = tuple(int(c[i]) for c in coords)
        if all(0 <= x < n for x, n in zip(at, out.shape, strict=False)):
            out[at] = updates[i] if kind == "set" else KINDS[kind](out[at], updates[i])
    return np.moveaxis(out, range(len(axes)), axes)


def check(shape: list[int], lead: list[int], axes: list[int], kind: str, dtype: DType, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    rest = [shape[a] for a in range(len(shape)) if a not in axes]

    def numbers(*sizes: int) -> Any:
        return rng.integers(1, 4, sizes).astype(dtype.numpy)  # products of few of them are exact

    base, updates = numbers(*shape), numbers(*lead, *rest)
    coords = [rng.integers(-1, shape[a] + 1, lead).astype(np.int32) for a in axes]
    b = Builder()
    x, u = b.input(base.shape, dtype), b.input(updates.shape, dtype)
    places = [b.input(c.shape, DType.I32) for c in coords]
    (got,), _ = compiled(Program(b.inputs, [b.scatter(x, u, places, axes, kind)]), [base, updates, *coords])
    np.testing.assert_array_equal(got, expected(base, updates, coords, axes, kind))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([1, 2, 3, 7]), min_size=0, max_size=2), st.sampled_from([1, 2, 9, 16, 17, 40, 70, 130]),
    st.sampled_from([[], [1], [2], [3, 1, 2]]), st.lists(st.integers(1, 9), min_size=1, max_size=2),
    st.sampled_from(sorted(KINDS)), st.sampled_from(TYPES), st.data(),
)  # fmt: skip
def test_any_axes(
    isa: str, front: list[int], last: int, back: list[int], lead: list[int], kind: str, dtype: DType,
    data: st.DataObject,
) -> None:  # fmt: skip
    shape = [*front, last, *back]
    axes = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    check(shape, lead, axes, kind, dtype, data.draw(st.integers(0, 9)))


@pytest.mark.parametrize("columns", [1, 5, 16, 32, 50, 64, 100, 192])
@pytest.mark.parametrize("kind", ["set", "add"])
def test_parts_of_the_result(isa: str, columns: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item makes the updates to its own rows, of as many parts as there are rows at most."""
    monkeypatch.setattr(scatter, "SCATTER_NUMBERS", 1)
    for rows in (1, 3, 50):
        check([rows, columns], [200], [0], kind, DType.F32)
        check([rows, 3, columns], [20, 7], [0], kind, DType.F32)
        check([4, rows, columns], [200], [0, 1], kind, DType.I32)


@pytest.mark.parametrize("shape", [[0, 5], [5, 0], [0, 0], [5, 0, 3], [0]])
def test_nothing_to_update(shape: list[int]) -> None:
    check(shape, [4], [0], "add", DType.F32)
    check([*shape, 3], [0], [0], "set", DType.F32)


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
def test_sizes_that_are_not_known(axes: list[int]) -> None:
    b, n = Builder(), ext.sym(0)
    shape = (4, 3, n, 2)
    x = b.input(shape, DType.F32)
    u = b.input((6, *(shape[a] for a in range(4) if a not in axes)), DType.F32)
    places = [b.input((6,), DType.I32) for _ in axes]
    check_range(Program(b.inputs, [b.scatter(x, u, places, axes, "add")]), [[1], [7], [32], [100], [0]])


@pytest.mark.parametrize("part", [costs.SUMMED_NUMBERS, 20])
def test_blocks_of_updates(isa: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few updates, whose sums are on the stack or, where they are more than `part`, in memory."""
    monkeypatch.setattr(scatter, "SCATTER_NUMBERS", 1)
    for name, value in {"UPDATES": 3, "PASSES": 0, "BLOCKS": 5, "NUMBERS": part}.items():
        monkeypatch.setattr(scattered_sums, f"SUMMED_{name}", value)
    for shape, lead, axes in (
        ([3], [50], [0]), ([7, 5], [41], [0]), ([5, 70], [9, 4], [0]), ([3, 4, 33], [30], [0, 1]),
        ([3, 4], [30], [0, 1]), ([4, 6, 3], [20], [1]), ([2, 3, 4, 17], [50], [0, 2]), ([9, 130], [17], [0]),
    ):  # fmt: skip
        check(shape, lead, axes, "add", DType.F32)
    check([5, 70], [50], [0], "sub", DType.F32)


@pytest.mark.parametrize("part", [costs.SUMMED_NUMBERS, 20])
def test_blocks_of_updates_of_a_number_that_is_not_known(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are none where the running kernel finds that a stack has no room for the sums."""
    for name, value in {"UPDATES": 3, "PASSES": 0, "NUMBERS": part}.items():
        monkeypatch.setattr(scattered_sums, f"SUMMED_{name}", value)
    b, n = Builder(), ext.sym(0)
    x, u, rows = b.input((n, 5), DType.F32), b.input((n, 3, 5), DType.F32), b.input((n, 3), DType.I32)
    check_range(Program(b.inputs, [b.scatter(x, u, [rows], [0], "add")]), [[1], [7], [40], [0]])


def test_work_is_shared() -> None:
    """The gradient of an embedding of one vector's width, of a wide one, and of one whose rows have two axes."""
    for row, items in (((16,), 2), ((1024,), 16), ((512, 2), 16)):
        b = Builder()
        x, u, at = b.input((1000, *row), DType.F32), b.input((4096, *row), DType.F32), b.input((4096,), DType.I32)
        node = b.scatter(x, u, [at], [0], "add")
        rng = np.random.default_rng(0)
        arrays = [np.zeros(n.shape, n.dtype.numpy) for n in b.inputs[:2]] + [rng.integers(0, 1000, 4096, np.int32)]
        grids = [c.grid for c in compiled(Program(b.inputs, [node]), arrays)[1].calls]
        assert max(grids) >= items and node.op is Op.SCATTER  # more on CPUs with narrower vectors
