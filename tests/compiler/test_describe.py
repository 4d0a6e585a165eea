"""The manifest's row of a kernel counts what arithmetic says, and names the ops it came from."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.compiler import extent as ext
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.dtypes import DType
from habana_tf.compiler.ir import Builder, Contraction, Program
from habana_tf.compiler.recipe import Recipe
from habana_tf.hardware.cpu import target


def _recipe(program: Program) -> Recipe:
    return compile_program(program, "test", target())


@settings(deadline=None, max_examples=25)
@given(m=st.integers(1, 9), k=st.integers(2, 40), n=st.integers(1, 40))
def test_a_layer_is_one_mme_kernel_with_its_epilogue(m: int, k: int, n: int) -> None:
    b = Builder()
    x, w, bias = b.input((m, k), DType.F32), b.input((k, n), DType.F32), b.input((n,), DType.F32)
    b.origin = 0
    product = b.contract(x, w, Contraction((0, 1), (1, 2), (0, 2)))
    b.origin = 1
    total = b.binary("add", product, bias)
    b.origin = 2
    recipe = _recipe(Program(b.inputs, [b.binary("max", total, b.const(0.0, DType.F32))]))
    (row,) = recipe.kernels
    assert (row["engine"], row["does"], row["ops"]) == ("MME", "contract", [0, 1, 2])
    assert row["fused"] == {"add": 1, "max": 1}
    assert row["flops"] == 2 * m * k * n + 2 * m * n
    assert row["bytes"] == 4 * (m * k + k * n + n + m * n)
    assert row["launches"] == [0, len(recipe.launches)]


def test_integers_casts_and_selections_are_no_floating_point_operations() -> None:
    b = Builder()
    i, c = b.input((5,), DType.I32), b.input((5,), DType.BOOL)
    number = b.cast(b.binary("add", i, i), DType.F32)
    (row,) = _recipe(Program(b.inputs, [b.select(c, number, b.map("exp", number))])).kernels
    assert row["fused"] == {"add": 1, "cast": 1, "exp": 1, "select": 1}
    assert row["flops"] == 5


def test_a_reduction_counts_its_terms() -> None:
    b = Builder()
    x = b.input((6, 7), DType.F32)
    (row,) = _recipe(Program(b.inputs, [b.reduce("sum", b.map("exp", x), [1])])).kernels
    assert (row["does"], row["shape"], row["flops"], row["bytes"]) == ("reduce", [6, 7], 84, 4 * (42 + 6))


def test_a_size_known_at_run_time_only_is_text() -> None:
    b = Builder()
    x = b.input((ext.sym(0), 3), DType.F32)
    (row,) = _recipe(Program(b.inputs, [b.map("exp", x)])).kernels
    assert row["shape"] == ["s0", 3]
    assert row["flops"] == str(ext.mul(ext.sym(0), 3))


def test_every_launch_belongs_to_one_kernel() -> None:
    b = Builder()
    x = b.input((64, 300, 40), DType.F32)
    positions = b.sort(x, 2)
    total = b.reduce("sum", x, [0, 1, 2])
    recipe = _recipe(Program(b.inputs, [positions, total, b.scan("sum", x, 1)]))
    covered = [n for row in recipe.kernels for n in range(row["launches"][0], sum(row["launches"]))]
    assert covered == list(range(len(recipe.launches)))
