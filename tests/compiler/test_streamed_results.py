"""Results written past the caches: which ones are, and that they are what plain stores write, wherever rows begin."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.compiler import costs, streamed_results
from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.compile import prepared
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import Isa, Target, any_cpu
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Program
from tests.compiler.running import check

F32, BF16 = DType.F32, DType.BF16
PRODUCT = Contraction((0, 1), (1, 2), (0, 2))
PORTABLE = Target(Isa.PORTABLE, False, "x86-64", "")
AVX2, AVX512, NEON = any_cpu(Isa.AVX2), any_cpu(Isa.AVX512), any_cpu(Isa.NEON)


def _text(program: Program, target: Target = AVX512) -> str:
    """The code of a program's kernels."""
    program = prepared(program)
    plan = schedule(program)
    streamed_results.mark_streamed(plan, program, target)
    texts: list[str] = []
    generate(plan, target, texts.append, 1 << 30)
    return "".join(texts)


def _sum(rows: int, columns: int, dtype: DType = F32) -> Program:
    b = Builder()
    x, y = b.input((rows, columns), dtype), b.input((rows, columns), dtype)
    return Program(b.inputs, [b.map("add", x, y)])


def _product(rows: int, depth: int, columns: int) -> Program:
    b = Builder()
    x, y = b.input((rows, depth), F32), b.input((depth, columns), F32)
    return Program(b.inputs, [b.contract(x, y, PRODUCT)])


def test_only_what_no_cache_holds_is_written_past_them() -> None:
    large = costs.STREAMED_BYTES // 4 // 1024
    for program, past in [(_sum(large, 1024), True), (_sum(large - 1, 1024), False), (_sum(large, 1024, BF16), False)]:
        text = _text(program)
        assert ("!nontemporal" in text) == past and ("sfence()" in text) == past


def test_targets_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight bytes an element the portable target's vectors are half a line too."""
    monkeypatch.setattr(streamed_results, "STREAMED_BYTES", 0)
    for dtype in (F32, DType.I64):
        assert "!nontemporal" not in _text(_sum(64, 64, dtype), PORTABLE)
        assert "!nontemporal" in _text(_sum(64, 64, dtype), AVX2)


def test_new_values_of_variables_and_results_in_loops_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_results, "STREAMED_BYTES", 0)
    plain = _sum(64, 64)
    assert "!nontemporal" in _text(plain)
    assert "!nontemporal" not in _text(Program(plain.inputs, plain.outputs, updates=[(0, 0)]))
    b, inner = Builder(), Builder()
    state, x = b.input((64, 64), F32), b.input((5, 64, 64), F32)
    h, row = inner.input((64, 64), F32), inner.input((64, 64), F32)
    step = inner.map("tanh", inner.map("add", h, row))
    loop = Loop(5, Program(inner.inputs, [step, step]), 1, ((0, 1),), ((0, 1),))
    last, every = b.loop(loop, [state, x])
    assert "!nontemporal" not in _text(Program(b.inputs, [last, every]))


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 48, 144, 333])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_maps_and_reductions(columns: int, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that begin at lines of memory, and rows that do not: a store that were not aligned would end the process."""
    monkeypatch.setattr(streamed_results, "STREAMED_BYTES", 0)
    b = Builder()
    x, y = b.input((7, 9, columns), dtype), b.input((7, 9, columns), dtype)
    both = b.map("mul", b.map("add", x, y), x)
    outputs: list[Node] = [both, b.reduce("sum", both, (0,)), b.reduce("max", x, (2,))]
    program = Program(b.inputs, outputs)
    rng = np.random.default_rng(columns)
    arrays = [rng.integers(-8, 8, (7, 9, columns)).astype(dtype.numpy) for _ in b.inputs]
    check(program, arrays)


@pytest.mark.parametrize("columns", [16, 48, 80, 100, 512])
@pytest.mark.parametrize("rows", [1, 13, 64])
def test_products(rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_results, "STREAMED_BYTES", 0)
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 24), (24, columns))]
    check(_product(rows, 24, columns), arrays, atol=1e-5)
    text = _text(_product(64, 24, columns))
    assert ("!nontemporal" in text) == (columns % 16 == 0)
    assert "!nontemporal" not in _text(_product(64, 24, columns), AVX2)  # half a line after the other
