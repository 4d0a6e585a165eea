"""Rounding errors of products with long sums against float64, of each way to compute them.

All numbers are equal, which is the worst (see `test_sum_errors`), and what they come to is known without a reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from habana_tf.compiler.codegen.tiles.choose import block_plan, plan
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.program import ContractCode, emit_contract
from habana_tf.compiler.contraction import canonical
from habana_tf.hardware.cpu import Target, target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from tests.compiler import contraction_cases as shapes
from tests.compiler.contraction_cases import BF16, F32, Case
from tests.compiler.sum_cases import PRODUCTS, UNIT
from tests.effort import quickly

PAIRS = 30
"""As PRODUCTS, of products of pairs, which a step adds to a sum one after the other: a block of them loses 390."""


def whole(cut: Plan) -> Plan:
    """The same cut with sums in one part, as they are where a result is large enough to share."""
    if cut.chunks == 1:
        return cut
    dims = tuple(d for d in cut.dims if d.kind != "chunk")
    return replace(cut, dims=dims, grid_dims=cut.grid_dims - 1)


def lost(
    case: Case, tgt: Target, number: float, symbol: int | None = None, cut: Plan | None = None
) -> tuple[float, int, ContractCode]:
    """Units of the last place that the worst result is off, how many terms it has, and the code. symbol: the label
    whose extent is known at run time only."""
    spec = replace(case.spec, out=replace(case.spec.out, dtype=F32))
    terms = math.prod(e for e, s in zip(spec.extents, spec.out.strides, strict=True) if not s)
    count = math.prod(spec.extents) // terms
    dims = () if symbol is None else (spec.extents[symbol],)
    open_ = [ext.sym(0) if k == symbol else e for k, e in enumerate(spec.extents)]
    code = emit_contract(replace(spec, extents=tuple(open_)), tgt, "kernel", cut=cut)
    half = case.a.dtype == np.uint16
    value = shapes.to_bf16(np.array([number])) if half else np.array([number], np.float32)
    exact = float(shapes.from_bf16(value)[0] if half else value[0]) ** 2 * terms
    out = np.zeros(count, np.float32)
    buffers: dict[object, np.ndarray] = {"a": np.full_like(case.a, value[0]), "b": np.full_like(case.b, value[0])}
    shapes.run(code, tgt, {**buffers, "out": out}, dims=dims)
    return float(np.abs(out / exact - 1).max() / UNIT), terms, code


def check(
    case: Case, tgt: Target, symbol: int | None = None, cut: Plan | None = None, number: float = 0.7
) -> ContractCode:
    units, terms, code = lost(case, tgt, number, symbol, cut)
    in_pairs = code.plan is not None and code.plan.dot
    assert units < (PAIRS if in_pairs else PRODUCTS) * math.log2(terms)
    return code


CASES: dict[str, Callable[[DType], Case]] = {
    "rows": lambda dtype: shapes.matmul(30, 40, 50_001, dtype=dtype),
    "columns": lambda dtype: shapes.matmul(30, 40, 50_000, ta=True, dtype=dtype),
    "few columns": lambda dtype: shapes.matmul(30, 2, 50_000, tb=True, dtype=dtype),
    "filter gradient": lambda dtype: shapes.filter_gradient(16, 66, 4, 20, 3, dtype),
    "filter gradient, strided": lambda dtype: shapes.filter_gradient(16, 129, 4, 20, 3, dtype, 2),
    "filter gradient, 5 x 5": lambda dtype: shapes.filter_gradient(8, 68, 4, 20, 5, dtype),
}


@pytest.mark.parametrize("name", quickly(list(CASES), 2))
def test_products_of_float32(name: str) -> None:
    check(CASES[name](F32), target())


@pytest.mark.parametrize("name", quickly(list(CASES), 2))
@pytest.mark.parametrize("way", ["dot", "widen"])
def test_products_of_bf16(name: str, way: str) -> None:
    if way == "dot" and not target().multiplies_bf16_pairs:
        pytest.skip("this CPU multiplies no pairs")
    check(CASES[name](BF16), shapes.told(target(), way))


@pytest.mark.parametrize("name", quickly(["columns", "filter gradient", "filter gradient, strided", "rows"], 2))
def test_products_in_one_part(name: str) -> None:
    """Without the parts that a few results are shared by: what many results have, with less to compute."""
    case = CASES[name](F32)
    check(case, target(), cut=whole(plan(canonical(case.spec), target())))


@pytest.mark.parametrize("name", quickly(["columns", "filter gradient, 5 x 5", "filter gradient"], 2))
def test_products_of_packed_operands_in_one_part(name: str) -> None:
    case = CASES[name](F32)
    cut = whole(block_plan(canonical(case.spec), target()))
    tgt = target()
    assert check(case, tgt, cut=cut).plan == replace(
        cut, masks_halves=tgt.masks_halves, masked_memory=tgt.masked_memory, float16=tgt.converts_float16
    )


@pytest.mark.rest
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_packed_operands_with_thousands_of_blocks(dtype: DType) -> None:
    case = shapes.matmul(24, 16, 1_000_003, ta=True, dtype=dtype)
    check(case, target(), cut=whole(block_plan(canonical(case.spec), target())), number=0.9)


@pytest.mark.parametrize("name, symbol", [("rows", 2), ("columns", 2), ("filter gradient", 4)])
def test_products_of_a_length_known_at_run_time_only(name: str, symbol: int) -> None:
    check(CASES[name](F32), target(), symbol)


@pytest.mark.parametrize("images", [8, pytest.param(256, marks=pytest.mark.rest)])
def test_winograd_gradients(images: int) -> None:
    """The filter's gradient of a 3 x 3 convolution, over up to a million positions."""
    case = shapes.filter_gradient(images, 66, 32, 32, 3)
    plan = check(case, target()).plan
    assert plan is not None and plan.winograd, "not by Winograd's algorithm"


@pytest.mark.rest
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_filter_gradients_over_millions_of_positions(dtype: DType) -> None:
    case = shapes.filter_gradient(512, 130, 1, 3, 3, dtype, 2)
    assert math.prod(case.spec.extents[4:]) == 4096 * 512
    check(case, target())
