"""Contractions that pack both operands, against NumPy's einsum, for every instruction set the host has."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from habana_tf.compiler.codegen.emit import Function
from habana_tf.compiler.codegen.tiles import blocks
from habana_tf.compiler.codegen.tiles.choose import block_plan, plan
from habana_tf.compiler.codegen.tiles.fill import Fill
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.operand import Across, Along
from habana_tf.compiler.codegen.tiles.program import ContractCode, emit_contract
from habana_tf.compiler.codegen.vector_memory import Form
from habana_tf.compiler.contraction import ContractSpec, Padding, canonical
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Isa, Target, target
from habana_tf.ir.dtypes import DType
from tests.compiler.contraction_cases import (
    BF16,
    F32,
    NARROW,
    SHAPES,
    TARGETS,
    Case,
    cases,
    dense,
    filter_gradient,
    matmul,
    padded_convolution,
    run,
    stored,
    to_bf16,
)
from tests.compiler.point_cases import KINDS, named

NETWORKS = [
    "tall weights are packed",
    "ten classes, transposed",
    "weight gradient",
    "long odd sum",
    "one row",
    "strided conv",
    "filter gradient",
    "same, positions in one tile",
    "same, strided",
    "same, tiny image",
    "input gradient, not padded",
]


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.booleans())
def test_any_labels(case: Case, tgt: Target, compact: bool) -> None:
    case.check(tgt, compact=compact, packed=True)


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.data())
def test_any_label_of_symbolic_extent(case: Case, tgt: Target, data: st.DataObject) -> None:
    symbol = data.draw(st.integers(0, len(case.spec.extents) - 1))
    try:
        case.check(tgt, symbol, compact=data.draw(st.booleans()), packed=True)
    except Unfit:  # an inner label of the sum, or of partial sums
        assume(False)


@pytest.mark.parametrize(("dtype", "tgt"), KINDS, ids=named)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, dtype: DType, tgt: Target) -> None:
    code = SHAPES[name](dtype).check(tgt, packed=True)
    assert code.plan is not None and code.plan.blocks


def guarded(case: Case, guards: tuple[Padding, ...], other: tuple[Padding, ...] = ()) -> Case:
    a, b = replace(case.spec.a, guards=guards), replace(case.spec.b, guards=other)
    return Case(replace(case.spec, a=a, b=b), case.a, case.b)


def padded_filter_gradient(n: int, h: int, c: int, o: int, s: int, dtype: DType) -> Case:
    """Of a convolution with 3x3 windows and one row of padding on each side that is not in memory."""
    oh = -(-h // s)
    extents = [3, 3, c, o, n, oh, oh]
    dy = [0, 0, 0, 1, oh * oh * o, oh * o, o]
    case = Case.make(extents, [h * c, c, 1, 0, h * h * c, s * h * c, s * c], dy, dense(extents, [0, 1, 2, 3]),
                     dtype, dtype)  # fmt: skip
    guards = Padding((1, 0, 0, 0, 0, s, 0), -1, h), Padding((0, 1, 0, 0, 0, 0, s), -1, h)
    case = guarded(case, guards)
    return Case(replace(case.spec, a=replace(case.spec.a, offset=-(h + 1) * c)), case.a[: n * h * h * c], case.b)


GUARDED = {
    "filter gradient": lambda t: padded_filter_gradient(3, 9, 20, 24, 1, t),
    "filter gradient, strided": lambda t: padded_filter_gradient(2, 13, 5, 40, 2, t),
    "rows and sum": lambda t: guarded(matmul(50, 40, 70, dtype=t), (Padding((1, 0, 1), -20, 60),)),
    "rows and sum, transposed": lambda t: guarded(
        matmul(50, 40, 70, ta=True, dtype=t), (Padding((2, 0, 3), -20, 150),)
    ),
    "few rows": lambda t: guarded(matmul(50, 40, 70, ta=True, dtype=t), (Padding((1, 0, 0), -3, 40),)),
    "columns": lambda t: guarded(matmul(50, 40, 70, dtype=t), (), (Padding((0, 1, 1), -4, 90),)),
    "columns, transposed": lambda t: guarded(matmul(50, 40, 70, tb=True, dtype=t), (), (Padding((0, 3, -1), 0, 100),)),
    "both": lambda t: guarded(
        matmul(45, 70, 300, dtype=t), (Padding((0, 0, 1), -7, 280),), (Padding((0, 1, 0), -5, 60),)
    ),
}


@pytest.mark.parametrize(("dtype", "tgt"), KINDS, ids=named)
@pytest.mark.parametrize("name", GUARDED)
def test_padding(name: str, dtype: DType, tgt: Target) -> None:
    """Of either operand, however it is tied to rows, columns and sum."""
    code = GUARDED[name](dtype).check(tgt, packed=True)
    assert code.plan is not None and code.plan.blocks


@pytest.mark.parametrize("rows", [1, 2, 13, 14, 15, 28, 40, 100])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
def test_rows_of_symbolic_number(rows: int, dtype: DType) -> None:
    for tgt in TARGETS:
        matmul(rows, 40, 70, ta=True, dtype=dtype).check(tgt, symbol=0, packed=True)


@pytest.mark.parametrize("tgt", TARGETS, ids=named)
def test_blocks_of_all_three_kinds(tgt: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several of rows, of columns and of the sum, whose last ones are shorter."""
    monkeypatch.setattr(blocks, "BLOCK_STEPS", 64)
    monkeypatch.setattr(blocks, "BLOCK_ROW_BYTES", 8 << 10)
    monkeypatch.setattr(blocks, "BLOCK_COLUMN_BYTES", 8 << 10)
    for case in (matmul(100, 90, 330), matmul(100, 90, 331, ta=True, tb=True, dtype=BF16)):
        code = case.check(tgt, packed=True)
        assert code.plan is not None and code.plan.blocks and code.plan.blocks.split
        assert code.plan.tiling.panels > code.plan.length(code.plan.dims[-1])


def test_sums_do_not_depend_on_the_cut() -> None:
    """Bit for bit: however the grid is shared among threads."""
    case = filter_gradient(16, 28, 8, 32, 3)
    code = emit_contract(case.spec, target(), "kernel", cut=block_plan(canonical(case.spec), target()))
    assert code.plan is not None and code.plan.chunks > 1 and code.plan.blocks
    results = []
    for cuts in (1, 2, 7):
        out = np.zeros(9 * 8 * 32, np.float32)
        run(code, target(), {"a": case.a, "b": case.b, "out": out}, cuts)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
def test_not_finite_stays_where_it_belongs(dtype: DType) -> None:
    """What copies have behind the last row, column and step meets nothing that is stored."""
    case = matmul(40, 45, 67, ta=True, dtype=dtype)
    infinite = np.float32(np.inf) if dtype is F32 else np.uint16(0x7F80)
    case.a.reshape(67, 40)[66, 13] = infinite
    case.b.reshape(67, 45)[66, 44] = infinite
    code = emit_contract(case.spec, target(), "kernel", cut=block_plan(canonical(case.spec), target()))
    out = np.zeros(40 * 45, np.float32 if dtype is F32 else np.uint16)
    run(code, target(), {"a": case.a, "b": case.b, "out": out})
    bad = ~np.isfinite(out) if dtype is F32 else (out & 0x7F80) == 0x7F80
    want = np.zeros((40, 45), bool)
    want[13] = want[:, 44] = True
    np.testing.assert_array_equal(bad.reshape(40, 45), want)


def before_a_forbidden_page(data: np.ndarray) -> np.ndarray:
    """A copy that ends where memory must not be read."""
    page = mmap.PAGESIZE
    room = -(-data.nbytes // page) * page
    memory = mmap.mmap(-1, room + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + room), page, 0) == 0
    made = np.frombuffer(memory, data.dtype, data.size, room - data.nbytes)
    made[:] = data
    return made


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize("shape", [(20, 20, 64), (28, 12, 67), (13, 44, 33)])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_nothing_behind_the_operands_is_read(
    transposed: tuple[bool, bool], shape: tuple[int, int, int], dtype: DType
) -> None:
    """Rows and columns that are no whole vectors, read along the sum."""
    case = matmul(*shape, *transposed, dtype=dtype)
    case = Case(case.spec, before_a_forbidden_page(case.a), before_a_forbidden_page(case.b))
    for tgt in TARGETS:
        case.check(tgt)
        case.check(tgt, packed=True)


def test_one_inner_loop_for_all_row_tiles() -> None:
    """27 rows are tiles of 14 and 13: the second one multiplies a row of zeros more, and stores one less."""
    spec: ContractSpec = padded_convolution(1, 27, 8, 32, 3, 1, 1, 1, 27, F32).spec
    cut = block_plan(canonical(spec), target())
    code = emit_contract(spec, target(), "kernel", cut=cut)
    assert len(cut.tiling.sizes) == 2 or cut.tiling.size == 1 or 27 % cut.tiling.size == 0
    assert code.calls[0].ir.count("fmuladd.v") == _steps(code.calls[0].ir, cut.tiling.rows * cut.tiling.vectors)


def _steps(ir: str, work: int) -> int:
    """Multiply-adds of one turn of one inner loop: as many for each step that it takes."""
    return work * (4 if work <= 16 else 2)


INTEL = Target(Isa.AVX512, False, "cascadelake", "")
"""Reading in strides costs half as much again there."""


@pytest.mark.parametrize(("case", "packed"), [
    (matmul(384, 1536, 1600, ta=True), True),
    (matmul(1536, 384, 1600, ta=True, dtype=BF16), True),
    (matmul(1600, 1536, 384), False),
    (matmul(64, 256, 25600, ta=True), False),
    (matmul(200, 200, 20, ta=True), False),
], ids=["weight gradient", "in bf16", "contiguous", "few rows", "small"])  # fmt: skip
def test_packing_pays_where_a_is_strided_and_much_used(case: Case, packed: bool) -> None:
    c = canonical(case.spec)
    assert (plan(c, INTEL).blocks is not None) == packed
    assert plan(c, replace(INTEL, llvm_cpu="znver4")).blocks is None


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(("across", "along"), [(1, 24), (40, 1), (80, 2)], ids=["across", "along", "apart"])
@pytest.mark.parametrize("depth", [0, 16], ids=["words", "registers"])
def test_pairs_of_8_bits_are_those_in_bf16(dtype: DType, across: int, along: int, depth: int) -> None:
    """What copies pairs is the same code on CPUs that cannot multiply them."""
    numbers = stored(np.random.default_rng(7).standard_normal(24 * 80), dtype)
    made = []
    for form, data in ((Form(dtype), numbers), (Form(BF16), to_bf16(numbers.astype(np.float32)))):
        fn = Function("copy", float16=target().converts_float16)
        fill = Fill(fn, form, 16, True, depth)
        source, copy = fn.buffer(0), fn.buffer(1)
        fill.pack(Across(across, "24", 24, 24), [Along(along, 32, 24 * 64 if depth else 24 * 4)], source, copy, [])
        out = np.zeros(4 * 24 * 64, np.uint16)
        call = ContractionCall(fn, ("a", "out"), 1, 1)
        run(ContractCode((call,), (), None), target(), {"a": data, "out": out}, cuts=1)
        made.append(out)
    assert made[0].any()
    np.testing.assert_array_equal(made[0], made[1])
