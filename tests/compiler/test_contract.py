"""The contraction generator against NumPy's einsum on strided views, for every instruction set the host has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from habana_tf.compiler.codegen.tiles import tiling
from habana_tf.compiler.codegen.tiles.choose import plan
from habana_tf.compiler.codegen.tiles.narrow import narrow_tiling
from habana_tf.compiler.codegen.tiles.program import emit_contract
from habana_tf.compiler.contraction import ContractSpec, Operand, accepts_guards, canonical, guards_in_place
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Isa, Target, host, target
from habana_tf.ir.dtypes import DType
from tests.compiler.contraction_cases import (
    BF16,
    F32,
    NARROW,
    SHAPES,
    TARGETS,
    Case,
    cases,
    convolution,
    filter_gradient,
    from_bf16,
    matmul,
    padded_convolution,
    padded_depthwise,
    run,
    told,
)
from tests.compiler.point_cases import KINDS, named


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.booleans())
def test_any_labels(case: Case, tgt: Target, compact: bool) -> None:
    case.check(tgt, compact=compact)


@settings(max_examples=80, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.data())
def test_any_label_of_symbolic_extent(case: Case, tgt: Target, data: st.DataObject) -> None:
    symbol = data.draw(st.integers(0, len(case.spec.extents) - 1))
    try:
        case.check(tgt, symbol, compact=data.draw(st.booleans()))
    except Unfit:  # an inner label of the sum, or of partial sums
        assume(False)


@pytest.mark.parametrize(("dtype", "tgt"), KINDS, ids=named)
@pytest.mark.parametrize("name", SHAPES)
def test_networks(name: str, dtype: DType, tgt: Target) -> None:
    SHAPES[name](dtype).check(tgt)


@pytest.mark.parametrize("tgt", TARGETS[:1] + TARGETS[-1:], ids=named)
@pytest.mark.parametrize(("name", "dtype"), [
    *((name, NARROW[0]) for name in SHAPES),
    *((name, dtype) for name in ("one row of dot products", "one row", "mlp forward") for dtype in NARROW[1:]),
])  # fmt: skip
def test_operands_in_8_bits(name: str, dtype: DType, tgt: Target) -> None:
    case = SHAPES[name](dtype)
    case.check(tgt)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize("name", SHAPES)
def test_networks_in_compact_code(name: str, dtype: DType) -> None:
    """It is right, and never more code than the usual one."""
    case = SHAPES[name](dtype)
    compact = case.check(target(), compact=True)
    usual = emit_contract(case.spec, target(), "kernel")
    assert compact.plan is not None
    assert len("".join(c.ir for c in compact.calls)) <= len("".join(c.ir for c in usual.calls))


def test_compact_code_has_one_form_of_row_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the code of the fastest, for the loss of three rows in a hundred."""
    monkeypatch.setattr(tiling, "TILE_FORM_WORK", 0.0)
    case = matmul(101, 96, 576)
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    usual, compact = (emit_contract(case.spec, tgt, "kernel", compact=c) for c in (False, True))
    assert usual.plan is not None and len(usual.plan.tiling.sizes) == 2
    assert compact.plan is not None and len(compact.plan.tiling.sizes) == 1 and compact.plan.tiling.overlaps
    assert len(compact.calls[-1].ir) < len(usual.calls[-1].ir) / 2


@pytest.mark.parametrize("rows", [128, 512, 784])
def test_a_short_product_has_one_form_of_tile_where_that_costs_little(rows: int) -> None:
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    tiles = plan(canonical(matmul(rows, 512, 128).spec), tgt, False).tiling
    assert len(tiles.sizes) == 1
    assert not tiles.overlaps  # what its epilogue reads may be overwritten
    assert tiles.columns % tiles.width == 0


@pytest.mark.parametrize("rows", [9, 10, 13, 15, 25, 27, 28, 29, 40, 49, 100, 101])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
def test_rows_computed_twice_are_the_same_twice(rows: int, dtype: DType) -> None:
    for tgt in TARGETS:
        matmul(rows, 40, 70, dtype=dtype).check(tgt, compact=True)


@pytest.mark.skipif(
    Isa.AVX512 not in host().instruction_sets, reason="how many panels there are depends on the width of vectors"
)
@pytest.mark.parametrize(("columns", "copied"), [(32, False), (64, False), (256, True)])
def test_bf16_that_few_columns_read_is_not_copied_first(columns: int, copied: bool) -> None:
    """Each of them widens it anew, which is less work than a copy in fp32."""
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    code = convolution(4, 28, 192, columns, 1, 1, 1, BF16).check(tgt)
    assert code.plan is not None and code.plan.widen == copied
    assert ["kernel_spread"] * copied == [call.name for call in code.calls if call.name == "kernel_spread"]


@pytest.mark.skipif(Isa.AVX2 not in host().instruction_sets, reason="this CPU has no AVX2")
@pytest.mark.parametrize(("case", "a", "b"), [
    (matmul(128, 512, 784, dtype=BF16), "a copy", "a copy"),
    (matmul(25600, 96, 16, dtype=BF16), "a copy", "a copy"),
    (matmul(25600, 16, 96, dtype=BF16), "as it is read", "a copy"),
    (filter_gradient(32, 26, 1, 32, 3, BF16), "a copy", "as it is read"),
    (matmul(6, 512, 128, dtype=BF16), "as it is read", "as it is read"),
    (matmul(25600, 64, 256, dtype=BF16), "blocks", "blocks"),
    (matmul(384, 1536, 400, ta=True, dtype=BF16), "blocks", "blocks"),
], ids=["usual", "few steps", "few columns", "few rows", "one tile", "large", "strided"])  # fmt: skip
def test_bf16_is_widened_outside_the_inner_loop_where_tiles_are_small(case: Case, a: str, b: str) -> None:
    """An operand, if it meets more than one panel or row tile, and a copy of it stays in a cache."""
    p = case.check(Target(Isa.AVX2, False, "x86-64-v3", "")).plan
    assert p is not None
    where = ["a copy" if copied else "as it is read" for copied in (p.widen, p.pack != "none")]
    assert (["blocks", "blocks"] if p.blocks else where) == [a, b]


def test_a_long_product_has_the_fastest_tile() -> None:
    case = matmul(4096, 4096, 4096, F32)
    tiles = plan(canonical(case.spec), target(), False).tiling
    assert tiles.rows == -(-4096 // -(-4096 // target().register_tiles[tiles.vectors]))


def test_a_product_that_takes_long_is_not_compact() -> None:
    code = emit_contract(matmul(1000, 1000, 1000).spec, target(), "kernel", compact=True)
    assert code.plan is not None and not code.plan.compact


@pytest.mark.parametrize("extents", [[0, 4, 5], [4, 0, 5], [4, 20, 0], [40, 3, 0], [40, 1, 0]])
def test_empty(extents: list[int]) -> None:
    m, n, k = extents
    spec = ContractSpec(tuple(extents), Operand(F32, (k, 0, 1)), Operand(F32, (0, n, 1)), Operand(F32, (n, 1, 0)))
    code = emit_contract(spec, target(), "kernel")
    out = np.full(m * n + 1, 3, np.float32)
    run(code, target(), {"a": np.zeros(1, np.float32), "b": np.zeros(1, np.float32), "out": out})
    assert (out[:-1] == 0).all()
    assert out[-1] == 3


def test_sums_do_not_depend_on_the_cut() -> None:
    """Bit for bit: however the grid is shared among threads, also where the sum itself is split."""
    case = filter_gradient(16, 28, 1, 32, 3)
    code = emit_contract(case.spec, target(), "kernel")
    assert code.plan is not None and code.plan.chunks > 1
    results = []
    for cuts in (1, 2, 7):
        out = np.zeros(9 * 32, np.float32)
        run(code, target(), {"a": case.a, "b": case.b, "out": out}, cuts)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_a_sum_over_short_strided_runs_is_cut_and_fetched_ahead(dtype: DType) -> None:
    """There are tiles enough, and yet chunks: what a tile reads must be in the cache still for the next one."""
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    for case, cut in (
        (filter_gradient(8, 32, 256, 256, 2, dtype, s=2), True),
        (matmul(1024, 256, 1536, ta=True, dtype=dtype), False),
    ):
        code = emit_contract(case.spec, tgt, "kernel")
        assert code.plan is not None and code.plan.pack != "blocks"
        assert (code.plan.chunks != 1) == cut
        (main,) = (call for call in code.calls if call.name == "kernel")
        assert ("llvm.prefetch" in main.ir) == cut


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize(("case", "lanes"), [
    (lambda t: matmul(4096, 10, 1024, dtype=t), "sum"),
    (lambda t: matmul(4096, 13, 1024, dtype=t), "columns"),
    (lambda t: matmul(4096, 3, 20, dtype=t), "columns"),  # too short to add lanes up
    (lambda t: matmul(512, 10, 128, ta=True, dtype=t), "rows"),
    (lambda t: matmul(9, 10, 128, ta=True, dtype=t), "columns"),
    (lambda t: convolution(2, 20, 64, 3, 3, 1, 1, t), "sum"),
    (lambda t: padded_convolution(2, 20, 64, 1, 3, 1, 1, 1, 20, t), "sum"),
    (lambda t: filter_gradient(2, 20, 64, 3, 3, t), "rows"),
    (lambda t: matmul(1, 500, 256, tb=True, dtype=t), "sum"),  # of the second operand's rows
    (lambda t: matmul(1, 500, 256, dtype=t), "columns"),
])  # fmt: skip
def test_lanes_run_along_what_is_long(case: Callable[[DType], Case], lanes: str, dtype: DType) -> None:
    code = emit_contract(case(dtype).spec, Target(Isa.AVX512, False, "x86-64-v4", ""), "kernel")
    assert code.plan is not None and code.plan.lanes == lanes


@pytest.mark.parametrize(("columns", "squares"), [(4, 5), (7, 3), (8, 1), (12, 1)])
def test_many_of_few_columns_are_turned_over_in_one_square(columns: int, squares: int) -> None:
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    c = canonical(matmul(16 * 15, columns, 64, ta=True).spec)
    assert narrow_tiling(c, tgt, "rows").size == squares * tgt.lanes


def test_what_never_runs_is_not_written() -> None:
    """Columns of ten elements have no block of sixteen to turn over, a sum over one step no pair."""
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    columns = (matmul(64, 1600, 10, tb=True, dtype=dtype) for dtype in (F32, BF16))
    for case in (*columns, matmul(9, 40, 1, dtype=BF16)):
        code = emit_contract(case.spec, tgt, "kernel")
        assert all("icmp sgt i64 0, 0" not in call.ir for call in code.calls)
        if Isa.AVX512 in host().instruction_sets:
            case.check(tgt)


@pytest.mark.parametrize("tgt", TARGETS, ids=named)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
def test_few_columns_of_a_size_known_at_run_time_only(dtype: DType, tgt: Target) -> None:
    matmul(70, 3, 150, dtype=dtype).check(tgt, symbol=0)
    matmul(75, 3, 90, ta=True, dtype=dtype).check(tgt, symbol=2)
    filter_gradient(5, 9, 40, 3, 3, dtype).check(tgt, symbol=4)


def test_what_lies_behind_a_row_is_not_multiplied() -> None:
    """The last vector of a sum is a part of one; an infinity behind it must not meet the zeros of the other operand."""
    case = matmul(40, 3, 150)
    case.a.reshape(40, 150)[1] = np.inf
    out = np.zeros(40 * 3, np.float32)
    run(emit_contract(case.spec, target(), "kernel"), target(), {"a": case.a, "b": case.b, "out": out})
    finite = np.isfinite(out.reshape(40, 3))
    assert not finite[1].any() and finite[[0, *range(2, 40)]].all()


def test_not_finite_stays_where_it_belongs() -> None:
    """The padding of odd pairs must not turn a neighbour's infinity into NaN."""
    case = filter_gradient(3, 8, 32, 64, 2, BF16)
    case.a[0] = 0x7F80  # the first pixel meets only the filter's first element
    code = emit_contract(case.spec, target(), "kernel")
    out = np.zeros(2 * 2 * 32 * 64, np.uint16)
    run(code, target(), {"a": case.a, "b": case.b, "out": out})
    finite = np.isfinite(from_bf16(out).reshape(2, 2, 32, 64))
    assert not finite[0, 0, 0].any()
    finite[0, 0, 0] = True
    assert finite.all()


def test_labels_are_merged() -> None:
    """A 1x1 convolution is one matrix product."""
    c = canonical(convolution(2, 6, 8, 12, 1, 1, 1).spec)
    assert [x.extent for x in (*c.m, *c.n, *c.k)] == [2 * 6 * 6, 12, 8]


def test_the_result_chooses_the_sides() -> None:
    """out[n, m]: the lanes run along m, so a and b change places."""
    c = canonical(Case.make([4, 5, 6], [1, 0, 4], [0, 1, 5], [1, 4, 0], F32, F32).spec)
    assert c.swapped
    assert c.lane is not None and c.lane.extent == 4


@pytest.mark.parametrize("tgt", TARGETS, ids=named)
@pytest.mark.parametrize("make", [
    lambda: padded_convolution(2, 28, 1, 32, 3, 1, 1, 1, 28, F32),
    lambda: padded_depthwise(2, 9, 40, F32),
    lambda: padded_depthwise(1, 30, 20, F32),
], ids=["one channel", "depthwise", "wide depthwise"])  # fmt: skip
def test_padding_of_fp32(make: Callable[[], Case], tgt: Target) -> None:
    make().check(tgt)


def test_padding_that_cannot_be_read_in_place() -> None:
    """It is zero in a packed copy."""
    one_channel = padded_convolution(2, 28, 8, 32, 3, 1, 1, 1, 28, BF16).spec
    strides = (*one_channel.a.strides[:6], 28 * 28)
    planes_first = ContractSpec(
        one_channel.extents, Operand(BF16, strides, 0, one_channel.a.guards), one_channel.b, one_channel.out
    )
    assert accepts_guards(planes_first) and not guards_in_place(canonical(planes_first))
    code = emit_contract(planes_first, target(), "kernel")
    assert code.plan is not None and code.plan.blocks


def test_padding_that_must_be_in_memory() -> None:
    """Where lanes run along a batch, nothing is packed; and a guard on the columns cannot be seen to."""
    depthwise = padded_depthwise(2, 9, 40, F32).spec
    assert accepts_guards(depthwise)
    turned = ContractSpec(depthwise.extents, depthwise.b, depthwise.a, depthwise.out)
    assert not accepts_guards(turned)
    with pytest.raises(ValueError, match="in memory"):
        emit_contract(turned, target(), "kernel")


def test_plans_share_work() -> None:
    """Work long enough for threads has items enough for several; bf16 uses dot products where they are chosen."""
    tgt = told(Target(Isa.AVX512, True, "x86-64-v4", "+avx512bf16"), "dot")
    for case in (matmul(512, 512, 784), convolution(64, 13, 32, 64, 3, 1, 1), filter_gradient(64, 28, 1, 32, 3)):
        code = emit_contract(case.spec, tgt, "kernel")
        assert max(call.grid for call in code.calls) >= 8
    assert plan(canonical(matmul(128, 512, 784, dtype=BF16).spec), tgt).dot


@pytest.mark.parametrize("sizes", [(1600, 384, 384), (1600, 1536, 384), (2048, 1024, 256)], ids=str)
def test_long_products_have_items_for_many_processors(sizes: tuple[int, int, int]) -> None:
    made = plan(canonical(matmul(*sizes).spec), Target(Isa.AVX512, False, "x86-64-v4", ""))
    assert isinstance(made.grid, int) and made.grid >= 64
