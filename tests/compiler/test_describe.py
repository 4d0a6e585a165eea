"""The manifest's row of a kernel counts what arithmetic says, and names the ops it came from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.describe import describe, engine, flops, touched
from habana_tf.compiler.generic_products import generic_product
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program

F = DType.F32


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
    assert row["launches"] == [0, len(recipe.calls)]


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


def test_every_call_belongs_to_one_kernel() -> None:
    b = Builder()
    x = b.input((64, 300, 40), DType.F32)
    positions = b.sort(x, 2)
    total = b.reduce("sum", x, [0, 1, 2])
    recipe = _recipe(Program(b.inputs, [positions, total, b.scan("sum", x, 1)]))
    covered = [n for row in recipe.kernels for n in range(row["launches"][0], sum(row["launches"]))]
    assert covered == list(range(len(recipe.calls)))


S, T = ext.sym(0), ext.sym(1)


def _elementwise(b: Builder) -> Node:
    x = b.input((S, T, 3), F)
    return b.binary("add", b.map("exp", x), b.pad(b.input((T, 1), F), (0, 1), (0, 1)))


def _reduction(b: Builder) -> Node:
    return b.reduce("sum", b.map("tanh", b.input((S, 5, T), F)), [0])


def _layer(b: Builder) -> Node:
    product = b.contract(b.input((S, T, 24), F), b.input((24, 40), F), Contraction((0, 1, 2), (2, 3), (0, 1, 3)))
    return b.binary("max", b.binary("add", product, b.input((40,), F)), b.const(0, F))


def _scan(b: Builder) -> Node:
    return b.scan("sum", b.map("neg", b.input((S, T), F)), 1)


def _sort(b: Builder) -> Node:
    return b.sort(b.input((T, S, 2), F), 1)


def _gather(b: Builder) -> Node:
    return b.map("sqrt", b.gather(b.input((T, 7), F), [b.input((S,), DType.I32)], [0]))


def _scatter(b: Builder) -> Node:
    base, updates = b.input((T, 7), F), b.map("exp", b.input((S, 7), F))
    return b.scatter(base, updates, [b.input((S,), DType.I32)], [0], "add")


def _words(b: Builder) -> Node:
    return b.random(b.state(0), ext.mul(S, T))


def _pieces(b: Builder) -> Node:
    x = b.input((S, 3), F)
    return b.concat([b.map("exp", x), x], 0)


def _same_counts(program: Program, dims: list[int]) -> None:
    """Asserts that the bodies over symbols and those over numbers are described alike."""
    symbolic = schedule(rewrite(program)).kernels
    rows = [describe(body) for body in schedule(rewrite(interpreter.bind(program, dims))).kernels]
    assert len(symbolic) == len(rows)
    for body, row in zip(symbolic, rows, strict=True):
        known = describe(body)
        assert [known[k] for k in ("does", "fused", "outputs")] == [row[k] for k in ("does", "fused", "outputs")]
        assert engine(body) == row["engine"]
        assert ext.evaluate(flops(body), dims) == row["flops"]
        assert ext.evaluate(touched(body), dims) == row["bytes"] > 0


@settings(deadline=None, max_examples=20)
@given(dims=st.tuples(st.integers(2, 40), st.integers(2, 40)))
@pytest.mark.parametrize("make", [_elementwise, _reduction, _layer, _scan, _sort, _gather, _scatter, _words, _pieces])
def test_counts_over_symbols_are_those_over_their_numbers(
    make: Callable[[Builder], Node], dims: tuple[int, int]
) -> None:
    b = Builder()
    out = make(b)
    _same_counts(Program(b.inputs, [out]), [*dims])


@pytest.mark.parametrize(
    ("make", "each"), [(_scan, "2*s0*s1"), (_scatter, "14*s0"), (_sort, "0"), (_words, "0"), (_reduction, "10*s0*s1")]
)
def test_what_kernels_of_their_own_compute_counts(make: Callable[[Builder], Node], each: str) -> None:
    """Functions of what they read, and their sums: of a scan one for each element, of a scatter for each update."""
    b = Builder()
    out = make(b)
    last = schedule(rewrite(Program(b.inputs, [out]))).kernels[-1]
    assert str(flops(last)) == each


@pytest.mark.skipif(not target().masked_memory, reason="products are walked with AVX2")
@settings(deadline=None, max_examples=20)
@given(m=st.integers(1, 60), k=st.integers(1, 60), n=st.integers(1, 60))
def test_a_walked_product_counts_its_multiply_adds(m: int, k: int, n: int) -> None:
    b = Builder()
    x, y = b.input((m, k), F), b.input((k, n), F)
    walk = generic_product(Program(b.inputs, [b.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))]), target())
    assume(walk is not None)
    assert walk is not None
    _same_counts(walk.program, walk.dims)
    (body,) = schedule(rewrite(walk.program)).kernels
    assert (engine(body), ext.evaluate(flops(body), walk.dims)) == ("MME", 2 * m * k * n)
