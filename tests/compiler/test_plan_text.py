"""Plans of products as text: written, read, changed by hand and replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from habana_tf.compiler.codegen.tiles.choose import block_plan
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.plan_text import UnfitPlan, read, written
from habana_tf.compiler.codegen.tiles.program import chosen, emit_contract
from habana_tf.compiler.contraction import accepts_guards, canonical, packable
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Isa, Target, target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from tests.compiler.contraction_cases import BF16, F32, SHAPES, Case, convolution, filter_gradient, matmul, run
from tests.compiler.test_contract_amx import AMX

MACHINES = [
    Target(Isa.AVX2, False, "x86-64-v3", ""),
    Target(Isa.AVX512, False, "x86-64-v4", ""),
    Target(Isa.NEON, False, "generic", ""),
    AMX,
]
CASES = {**SHAPES, "by Winograd's algorithm": lambda t: convolution(16, 30, 64, 64, 3, 1, 1, t),
         "gradient by Winograd's algorithm": lambda t: filter_gradient(16, 20, 64, 64, 3, t)}  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_read_as_it_was_written(name: str, dtype: DType) -> None:
    """On any machine, also of sizes known at run time only."""
    spec = CASES[name](dtype).spec
    for symbol in range(-1, len(spec.extents)):
        extents = tuple(ext.sym(0) if i == symbol else e for i, e in enumerate(spec.extents))
        some = replace(spec, extents=extents)
        for tgt in MACHINES:
            try:
                c = canonical(some)
                plans = [chosen(some, tgt)] if accepts_guards(some) else []
                plans += [block_plan(c, tgt)] if packable(c) else []
            except Unfit:
                continue
            for plan in plans:
                assert read(written(plan, c), c, tgt) == plan


def results(case: Case, plan: Plan) -> bytes:
    want = case.reference()
    out = np.zeros(want.size, np.float32)
    code = emit_contract(case.spec, target(), "kernel", cut=plan)
    run(code, target(), {"a": case.a, "b": case.b, "out": out})
    np.testing.assert_allclose(out, want.reshape(-1), rtol=1e-4, atol=1e-3)
    return out.tobytes()


def test_a_plan_is_changed_by_hand_and_replayed() -> None:
    """Another tile and another order of loops: the same sums."""
    case = matmul(100, 72, 300)
    c = canonical(case.spec)
    plan = read("tile m0/4\nvectors 2\nloops rows | panels\ncopies none\n", c, target())
    other = read("tile m0/3\nvectors 1\nloops panels | rows/5 rows\ncopies none\n", c, target())
    assert results(case, plan) == results(case, other) == results(case, chosen(case.spec, target()))
    cut = read("tile m0/4\nvectors 2\nloops k0/100 rows panels |\ncopies item\n", c, target())
    assert len(emit_contract(case.spec, target(), "kernel", cut=cut).calls) == 2
    results(case, cut)


def test_copies_are_a_line() -> None:
    case = matmul(64, 80, 96, tb=True)
    c = canonical(case.spec)
    text = "tile m0/4\nvectors 1\nloops rows panels |\ncopies {}\n"
    made = [results(case, read(text.format(how), c, target())) for how in ("item", "call")]
    blocks = text.format("blocks").replace("rows panels |", "rows/5 panels/2 | rows panels") + "sum | k0/50\n"
    results(case, read(blocks, c, target()))
    assert made[0] == made[1]


def test_blocks_of_winograds_algorithm() -> None:
    case = convolution(4, 18, 64, 64, 3, 1, 1)
    c = canonical(case.spec)
    plan = read("winograd rows 2 channels 32 panels 2 tiles 8 chunks 1", c, target())
    assert plan.winograd is not None and written(plan, c) == "winograd rows 2 channels 32 panels 2 tiles 8 chunks 1\n"
    results(case, plan)


def test_the_plan_in_the_documentation() -> None:
    spec = matmul(256, 512, 784).spec
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    assert f"```\n{written(chosen(spec, MACHINES[0]), canonical(spec))}```\n" in page


def changed(line: str, to: str) -> Callable[[str], str]:
    return lambda text: text.replace(line, to)


@pytest.mark.parametrize(("change", "reason"), [
    (changed("vectors 2\n", ""), "no line says vectors"),
    (changed("vectors", "colour red\nvectors"), "unknown lines: colour"),
    (changed("m0/4", "m3/4"), "the labels are m0, n0, k0"),
    (changed("m0/4", "k0/4"), "labels of rows"),
    (changed("m0/4", "m0/99"), "no tiles of 99 and 98 make 100"),
    (changed("rows | panels", "rows panels"), "one bar"),
    (changed("rows | panels", "| rows rows"), "over each of rows, panels once"),
    (changed("rows | panels", "rows | panels panels/2"), "stand before the loop"),
    (changed("rows | panels", "k0 rows | panels"), "over chunks of k0"),
    (changed("none", "item"), "a work item has one panel"),
    (changed("none", "blocks"), "a bar, labels within"),
    (changed("none", "twice"), "copies: none, item, call, blocks, not twice"),
    (changed("none", "call\npairs"), "of bf16 along a sum"),
    (changed("none", "none\nwidened"), "a short operand of known size"),
    (changed("none", "none\nlanes sum"), "with copies of a call"),
    (lambda text: "winograd rows 6", "no convolution"),
], ids=lambda x: x if isinstance(x, str) else "")  # fmt: skip
def test_what_kernels_cannot_run_is_refused_with_a_reason(change: Callable[[str], str], reason: str) -> None:
    c = canonical(matmul(100, 72, 300).spec)
    with pytest.raises(UnfitPlan, match=reason):
        read(change("tile m0/4\nvectors 2\nloops rows | panels\ncopies none\n"), c, target())
