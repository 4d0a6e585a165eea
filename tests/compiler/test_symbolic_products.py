"""Products over sizes known at run time only, walked: one code for every size, against NumPy and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from habana_tf._native import _bridge
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.recipe import Recipe, bind
from habana_tf.compiler.symbolic_products import with_loop_nests
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Op, Program

quick = settings(max_examples=12, deadline=None, derandomize=True)
_made: dict[str, tuple[Program, Recipe]] = {}

if not target().masked_memory:
    pytest.skip("this CPU does not walk products", allow_module_level=True)


def walked(name: str, program: Program) -> tuple[Program, Recipe]:
    """A program with its products walked, compiled once."""
    if name not in _made:
        changed = with_loop_nests(program, target())
        assert changed is not program and not any(n.op is Op.CONTRACT for n in changed.nodes()), name
        _made[name] = changed, compile_program(changed, "test", target())
    return _made[name]


def run(name: str, program: Program, dims: Sequence[int], *arrays: Any) -> Any:
    """What the compiled program computes, which agrees with the interpreted one."""
    changed, recipe = walked(name, program)
    bound = bind(recipe, dims, None, target())
    (raw,) = _bridge.run_program(bound, list(map(np.ascontiguousarray, arrays)), [])
    (want,) = interpreter.run(interpreter.bind(changed, dims), list(arrays))
    got = raw.view(np.float32).reshape(want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return got


def drawn(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def product(la: str, lb: str, out: str, letters: str) -> Program:
    """A product whose axes with these letters are symbols, the others of 3."""
    builder = Builder()
    size = {c: ext.sym(letters.index(c)) if c in letters else 3 for c in la + lb}
    x, y = (builder.input([size[c] for c in each], DType.F32) for each in (la, lb))
    labels = [tuple(map(ord, each)) for each in (la, lb, out)]
    return Program(builder.inputs, [builder.contract(x, y, Contraction(*labels))])


SIZES = st.integers(1, 40)
FORMS = ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn", "mk,kn->nm", "mk,k->m", "k,kn->n", "mkj,jkn->mn",
         "amk,kn->amn", "amk,kbn->ambn", "akm,akn->mn", "abmk,kn->bamn"]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@quick
@given(SIZES, SIZES, SIZES)
@example(1, 1, 1)
@example(33, 600, 17)
@example(3, 1500, 65)
def test_products_of_any_size(form: str, m: int, k: int, n: int) -> None:
    sides, out = form.split("->")
    la, lb = sides.split(",")
    letters = "".join(c for c in "mkn" if c in sides)
    dims = [{"m": m, "k": k, "n": n}[c] for c in letters]
    size = {"m": m, "k": k, "n": n}
    x, y = (drawn(*(size.get(c, 3) for c in each)) for each in (la, lb))
    want = np.einsum(form, x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(run(form, product(la, lb, out, letters), dims, x, y), want, rtol=1e-4, atol=1e-3)


def test_a_long_sum_is_as_exact_as_in_blocks() -> None:
    """Equal numbers are the worst case: each addition of a chain is rounded in the same direction."""
    x, y = np.full((2, 3_000_000), 0.1, np.float32), np.full((3_000_000, 3), 0.1, np.float32)
    got = run("mk,kn->mn", product("mk", "kn", "mn", "mkn"), [2, 3_000_000, 3], x, y)
    want = 3_000_000 * np.float64(np.float32(0.1)) ** 2
    assert np.abs(got / want - 1).max() < 5e-5


def test_bfloat16_is_multiplied_in_float32_and_rounded_once() -> None:
    builder = Builder()
    x, y = builder.input((ext.sym(0), ext.sym(1)), DType.BF16), builder.input((ext.sym(1), ext.sym(2)), DType.BF16)
    program = Program(builder.inputs, [builder.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))])
    a, b = (drawn(*shape).astype(DType.BF16.numpy) for shape in ((7, 30), (30, 20)))
    _, recipe = walked("bf16", program)
    (raw,) = _bridge.run_program(bind(recipe, [7, 30, 20], None, target()), [a, b], [])
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32).astype(DType.BF16.numpy)
    got = raw.view(DType.BF16.numpy).reshape(7, 20)
    assert np.mean(got != want) < 0.02  # where the sum in float32 lies on the other side of a half
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-7)


def test_what_has_code_stays_as_it_is() -> None:
    builder = Builder()
    x, y = builder.input((ext.sym(0), 30), DType.F32), builder.input((30, 20), DType.F32)
    program = Program(builder.inputs, [builder.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))])
    assert with_loop_nests(program, target()) is program


def test_a_sum_may_be_empty() -> None:
    builder = Builder()
    k = ext.add(ext.sym(0), -1)
    x, y = builder.input((ext.sym(1), k), DType.F32), builder.input((k, ext.sym(2)), DType.F32)
    program = Program(builder.inputs, [builder.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))])
    for m, k_, n in ((3, 0, 20), (3, 1, 20), (5, 40, 7)):
        a, b = drawn(m, k_), drawn(k_, n)
        np.testing.assert_allclose(run("empty", program, [k_ + 1, m, n], a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("end", [None, 240.0])
def test_operands_in_8_bits(end: float | None) -> None:
    """Are read as the numbers that they are; codes beyond the end are NaN."""
    builder = Builder()
    x, y = builder.input([ext.sym(0), ext.sym(1)], DType.F8E4M3), builder.input([ext.sym(1), 24], DType.F8E4M3)
    spec = Contraction((0, 1), (1, 2), (0, 2), largest=end)
    program = Program(builder.inputs, [builder.contract(x, y, spec, DType.F32)])
    _, recipe = walked(f"8 bits, {end}", program)
    for dims in ((3, 5), (40, 17)):
        raw = [np.random.default_rng(7).integers(0, 0x78, shape).astype(np.uint8) for shape in (dims, (dims[1], 24))]
        raw[0][1, 2] = 0x7D  # 416
        bound = bind(recipe, dims, None, target())
        (made,) = _bridge.run_program(bound, raw, [])
        a, b = (np.where(c < 8, c * 2.0**-9, (8 + c % 8) * 2.0 ** ((c >> 3) - 10.0)) for c in map(np.int64, raw))
        want = a @ b
        if end is not None:
            want[1] = np.nan
        np.testing.assert_allclose(made.view(np.float32).reshape(want.shape), want, rtol=1e-5)
