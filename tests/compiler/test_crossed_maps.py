"""Loops that read a tensor across, in squares, against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from habana_tf.compiler.codegen import crossed_maps
from habana_tf.compiler.codegen.crossed_maps import CrossedMap
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from tests.compiler.running import check, check_range

QUICK = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SIDES = st.sampled_from([1, 3, 5, 16, 17, 32, 33, 47, 70])
TYPES = [DType.F32, DType.BF16, DType.I32, DType.U8, DType.I64, DType.BOOL]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few points count."""
    monkeypatch.setattr(crossed_maps, "CROSSED_POINTS", 1)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CrossedMap]:
    """Those that were made of since."""
    found: list[CrossedMap] = []
    of = CrossedMap.of

    def watched(*arguments: Any) -> CrossedMap | None:
        one = of(*arguments)
        found.extend([one] if one else [])
        return one

    monkeypatch.setattr(crossed_maps.CrossedMap, "of", watched)
    return found


def numbers(dtype: DType, shape: tuple[int, ...], seed: int) -> Any:
    values = np.random.default_rng(seed).integers(-50, 50, shape)
    return values > 0 if dtype is DType.BOOL else np.abs(values).astype(dtype.numpy)


@QUICK
@given(st.lists(SIDES, min_size=2, max_size=4).filter(lambda s: np.prod(s) < 40000), st.sampled_from(TYPES), st.data())
def test_any_permutation(isa: str, shape: list[int], dtype: DType, data: st.DataObject) -> None:
    b = Builder()
    x = b.input(tuple(shape), dtype)
    order = data.draw(st.permutations(range(len(shape))))
    check(Program(b.inputs, [b.permute(x, order)]), [numbers(dtype, tuple(shape), 0)])


@pytest.mark.parametrize("rows, columns", [(16, 16), (64, 48), (33, 70), (70, 33), (17, 129), (2000, 18), (18, 2000)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_beside_what_lies_as_it_is_stored(
    rows: int, columns: int, dtype: DType, isa: str, made: list[CrossedMap]
) -> None:
    """Two tensors read across, one along, one that is the same for a row, and two results."""
    b = Builder()
    x, y = b.input((3, columns, rows), dtype), b.input((3, columns, rows), DType.F32)
    z, bias = b.input((3, rows, columns), dtype), b.input((3, rows, 1), DType.F32)
    across = [b.cast(b.permute(n, (0, 2, 1)), DType.F32) for n in (x, y)]
    total = b.binary("add", b.map("mul", *across), b.binary("sub", b.cast(z, DType.F32), bias))
    program = Program(b.inputs, [total, b.map("neg", b.permute(x, (0, 2, 1)))])
    check(program, [numbers(n.dtype, tuple(map(int, n.shape)), k) for k, n in enumerate(b.inputs)])
    assert [len(one.loads) for one in made] == [2]


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_over_sizes_that_are_not_known(dtype: DType, isa: str, made: list[CrossedMap]) -> None:
    b = Builder()
    x, y = b.input((ext.sym(0), ext.sym(1)), dtype), b.input((ext.sym(1), ext.sym(0)), dtype)
    sizes = [[1, 1], [3, 5], [16, 16], [33, 70], [70, 33], [257, 18], [5, 1000], [0, 7], [7, 0]]
    check_range(Program(b.inputs, [b.map("sub", b.permute(x, (1, 0)), y)]), sizes, rtol=1e-2)
    assert made


def test_what_is_under_a_condition_is_read_one_by_one(isa: str, made: list[CrossedMap]) -> None:
    b = Builder()
    x = b.input((40, 50), DType.F32)
    padded = b.pad(x, (1, 2), (0, 3), value=0.5)
    check(Program(b.inputs, [b.permute(padded, (1, 0))]), [numbers(DType.F32, (40, 50), 0)])
    assert not made
