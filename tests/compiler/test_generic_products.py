"""Products whose sizes are data: one code for every size, against NumPy and against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf._native import _bridge
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.generic_products import GenericProduct, generic_product
from habana_tf.compiler.recipe import Recipe, bind
from habana_tf.hardware.cpu import Isa, target
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.loop_nest import LoopNest
from habana_tf.ir.primitives import Contraction, Program
from habana_tf.resolver.key_text import program_text

quick = settings(max_examples=60, deadline=None, derandomize=True)
_recipes: dict[str, Recipe] = {}

if not target().masked_memory:
    pytest.skip("this CPU's products have code of their own", allow_module_level=True)


def product(a: Sequence[int], b: Sequence[int], la: str, lb: str, out: str, dtype: DType = DType.F32) -> Program:
    builder = Builder()
    x, y = builder.input(a, dtype), builder.input(b, dtype)
    labels = [tuple(map(ord, each)) for each in (la, lb, out)]
    return Program(builder.inputs, [builder.contract(x, y, Contraction(*labels))])


def run(walk: GenericProduct, *arrays: Any) -> Any:
    """The compiled product, which agrees with the interpreted one."""
    goal = target()
    text = program_text(walk.program)
    if text not in _recipes:
        _recipes[text] = compile_program(walk.program, "test", goal)
    bound = bind(_recipes[text], walk.dims, [walk.shape], goal)
    (raw,) = _bridge.run_program(bound, list(map(np.ascontiguousarray, arrays)), [])
    got = raw.view(np.float32).reshape(walk.shape)
    bound = interpreter.bind(walk.program, walk.dims)
    (want,) = interpreter.run(bound, [x.reshape(-1) for x in arrays])
    np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-4, atol=1e-4)
    return got


def walk_of(walk: GenericProduct) -> LoopNest:
    found: LoopNest = walk.program.outputs[0].arg
    return found


def drawn(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


SIZES = st.one_of(st.integers(1, 5), st.integers(1, 70))


@quick
@given(SIZES, SIZES, SIZES, st.sampled_from(["mk", "km"]), st.sampled_from(["kn", "nk"]))
def test_matrices_of_any_size(m: int, k: int, n: int, la: str, lb: str) -> None:
    """One row, one column, one step, fewer columns than lanes, rows that fill no tile; turned around or not."""
    sizes = {"m": m, "k": k, "n": n}
    a, b = (tuple(sizes[x] for x in each) for each in (la, lb))
    walk = generic_product(product(a, b, la, lb, "mn"), target())
    if walk is None:
        assert n == 1 or m < 4  # then the lanes' axis may not be read side by side, and nothing would be read twice
        return
    x, y = drawn(*a), drawn(*b)
    np.testing.assert_allclose(run(walk, x, y), np.einsum(f"{la},{lb}->mn", x, y), rtol=1e-4, atol=1e-4)


@quick
@given(st.integers(1, 3), st.integers(1, 4), st.integers(4, 30), st.integers(1, 20), st.integers(2, 40))
def test_batches_wherever_their_axes_stand(b: int, h: int, m: int, k: int, n: int) -> None:
    inner, outer = ("bhmk", "bhkn", "bhmn"), ("bmhk", "bkhn", "bmhn")
    for la, lb, out in (inner, outer, ("bmhk", "bnhk", "bhmn"), ("bmk", "kn", "bmn")):
        sizes = {"b": b, "h": h, "m": m, "k": k, "n": n}
        x, y = (drawn(*(sizes[c] for c in each)) for each in (la, lb))
        walk = generic_product(product(x.shape, y.shape, la, lb, out), target())
        assert walk is not None
        np.testing.assert_allclose(run(walk, x, y), np.einsum(f"{la},{lb}->{out}", x, y), rtol=1e-4, atol=1e-4)


def test_one_operand_may_be_both() -> None:
    builder = Builder()
    x = builder.input((20, 20), DType.F32)
    walk = generic_product(
        Program(builder.inputs, [builder.contract(x, x, Contraction((0, 1), (1, 2), (0, 2)))]), target()
    )
    assert walk is not None
    array = drawn(20, 20)
    np.testing.assert_allclose(run(walk, array), array @ array, rtol=1e-4, atol=1e-4)


def test_sizes_are_no_part_of_the_program() -> None:
    texts = set()
    for m, k, n in ((20, 30, 40), (500, 1, 3), (7, 900, 100)):
        walk = generic_product(product((m, k), (k, n), "mk", "kn", "mn"), target())
        assert walk is not None
        texts.add(program_text(walk.program))
    assert len(texts) == 1


def test_few_rows_have_a_tile_of_their_own() -> None:
    forms = set()
    for rows in (1, 2, 3, 4, 100):
        walk = generic_product(product((rows, 30), (30, 40), "mk", "kn", "mn"), target())
        assert walk is not None
        forms.add((rows < 4, walk_of(walk).tile))
    assert len(forms) == 2


def test_the_bits_do_not_depend_on_what_else_is_in_the_tile() -> None:
    """A row's sums are the same alone and among others, and so are those of a column."""
    x, y = drawn(40, 300), drawn(300, 70)

    def multiplied(a: Any, b: Any) -> Any:
        walk = generic_product(product(a.shape, b.shape, "mk", "kn", "mn"), target())
        assert walk is not None
        return run(walk, a, b)

    whole = multiplied(x, y)
    np.testing.assert_array_equal(multiplied(x[:5], y), whole[:5])
    np.testing.assert_array_equal(multiplied(x[7:8], y), whole[7:8])
    np.testing.assert_array_equal(multiplied(x, y[:, :17]), whole[:, :17])


@pytest.mark.parametrize(
    "program",
    [
        product((4096, 1024), (1024, 4096), "mk", "kn", "mn"),  # much work
        product((20, 30), (30, 40), "mk", "kn", "mn", DType.BF16),
        product((20, 30), (30, 1), "mk", "kn", "mn"),
        product((ext.sym(0), 30), (30, 40), "mk", "kn", "mn"),
        product((0, 30), (30, 40), "mk", "kn", "mn"),
        product((262144, 64), (64, 3), "mk", "kn", "mn"),  # lanes along three columns, where others run along the sum
    ],
)
def test_other_products_have_code_of_their_own(program: Program) -> None:
    assert generic_product(program, target()) is None


@pytest.mark.parametrize(("channels", "walks"), [(1, False), (16, True)])
def test_a_window_over_few_channels_has_code_of_its_own(channels: int, walks: bool) -> None:
    builder = Builder()
    x, w = builder.input((64, 30, 30, channels), DType.F32), builder.input((3, 3, channels, 32), DType.F32)
    seen = builder.window(x, [1, 2], [3, 3], [1, 1])
    y = builder.contract(seen, w, Contraction((0, 1, 2, 3, 4, 5), (4, 5, 3, 6), (0, 1, 2, 6)))
    wide = replace(target(), isa=Isa.AVX512)  # 16 channels are its vector
    assert (generic_product(Program(builder.inputs, [y]), wide) is not None) == walks


def test_what_follows_a_product_is_not_lost() -> None:
    builder = Builder()
    x, y = builder.input((20, 30), DType.F32), builder.input((30, 40), DType.F32)
    z = builder.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))
    assert generic_product(Program(builder.inputs, [builder.map("exp", z)]), target()) is None
    assert generic_product(Program(builder.inputs, [z, builder.map("exp", z)]), target()) is None
    again = generic_product(Program(builder.inputs, [builder.reshape(z, (4, 200))]), target())
    assert again is not None and again.shape == (4, 200)


def test_the_kernel_is_the_matrix_engines() -> None:
    walk = generic_product(product((20, 30), (30, 40), "mk", "kn", "mn"), target())
    assert walk is not None
    (row,) = compile_program(walk.program, "test", target()).kernels
    assert (row["engine"], row["does"]) == ("MME", "contract")
    bound = interpreter.bind(walk.program, walk.dims)
    assert bound.outputs[0].arg.multiply_adds == 20 * 30 * 40
