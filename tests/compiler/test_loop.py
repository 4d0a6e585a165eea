"""A loop in a recipe: its kernels are called again and again, on rows of what is sliced and stacked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from habana_tf.compiler.packed_recipe import pack, unpack
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder, ShapeError
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Program, Rows
from tests.compiler.running import check, check_range

PRODUCT = Contraction((0, 1), (1, 2), (0, 2))
FORWARD, BACKWARD = (0, 1), (4, -1)
F32 = DType.F32


def _cell(b: Builder, batch: ext.Extent = 3) -> Program:
    """h, c <- a cell of one gate on a row of x; its output stacked twice."""
    h, c, x = b.input((batch, 8), F32), b.input((batch, 8), F32), b.input((batch, 5), F32)
    w, u = b.input((5, 8), F32), b.input((8, 8), F32)
    z = b.map("add", b.contract(x, w, PRODUCT), b.contract(h, u, PRODUCT))
    cell = b.map("add", b.map("mul", b.map("sigmoid", z), c), b.map("tanh", z))
    return Program(b.inputs, [b.map("tanh", cell), cell, z, h])


def _recurrent(trips: ext.Extent, rows: Rows = FORWARD, batch: ext.Extent = 3) -> Program:
    """The last state, and all outputs."""
    b, length = Builder(), 5 if isinstance(trips, int) else trips
    src = [b.input(s, F32) for s in ((batch, 8), (batch, 8), (length, batch, 5), (5, 8), (8, 8))]
    loop = Loop(trips, _cell(Builder(), batch), 2, (rows,), ((0, 1), (ext.add(trips, -1), -1)))
    h, c, z, before = b.loop(loop, src)
    return Program(b.inputs, [b.map("neg", h), c, z, before])


def _arrays(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal([int(n) for n in x.shape]).astype(x.dtype.numpy) for x in program.inputs]


@pytest.mark.parametrize("trips", [0, 1, 4, 5])
@pytest.mark.parametrize("rows", [FORWARD, BACKWARD])
def test_as_the_interpreter(trips: int, rows: Rows) -> None:
    program = _recurrent(trips, rows)
    recipe = check(program, _arrays(program))
    (loop,) = recipe.loops
    assert loop.trips == trips and len(recipe.calls) < 8
    assert any(row.get("times") == trips for row in recipe.kernels) or trips == 1


def test_as_numpy() -> None:
    program = _recurrent(5)
    h, c, x, w, u = arrays = _arrays(program)
    zs, hs = [], []
    for t in range(5):
        hs.append(h)
        zs.append(x[t] @ w + h @ u)
        c = c / (1 + np.exp(-zs[-1])) + np.tanh(zs[-1])
        h = np.tanh(c)
    from habana_tf.ir import interpreter

    for got, want in zip(interpreter.run(program, arrays), (-h, c, np.stack(zs), np.stack(hs)[::-1]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_symbolic_batch() -> None:
    check_range(_recurrent(5, batch=ext.sym(0)), [[2], [7], [1]])


@pytest.mark.parametrize("batch", [3, 64, ext.sym(1)])  # of 64 rows there are blocks
@pytest.mark.parametrize("reverse", [False, True])
def test_symbolic_length(batch: ext.Extent, reverse: bool) -> None:
    length = ext.sym(0)
    program = _recurrent(length, (ext.add(length, -1), -1) if reverse else FORWARD, batch)
    recipe = check_range(program, [[n, k] for n in (5, 2, 1, 9, 30) for k in (2, 7)], rtol=1e-3, atol=1e-3)
    _, sections = pack(recipe)
    assert unpack("again", sections).loops == recipe.loops
    assert any(row.get("times") not in (None, 1) for row in recipe.kernels)


def test_a_loop_in_a_loop() -> None:
    inner = Builder()
    total, row, scale = inner.input((4,), F32), inner.input((4,), F32), inner.input((4,), F32)
    grown = inner.map("add", inner.map("mul", total, scale), row)
    adding = Loop(3, Program(inner.inputs, [grown, row]), 1, ((2, -1),), ((0, 1),))
    b = Builder()
    state, rows, scales = b.input((4,), F32), b.input((3, 4), F32), b.input((4,), F32)
    last, passed = b.loop(adding, [state, rows, scales])
    body = Program(b.inputs, [b.map("neg", last), b.map("add", passed, rows)])
    outer = Builder()
    src = [outer.input((4,), F32), outer.input((6, 3, 4), F32), outer.input((4,), F32)]
    made: list[Node] = outer.loop(Loop(6, body, 1, ((5, -1),), ((0, 1),)), src)
    program = Program(outer.inputs, made)
    assert len(check(program, _arrays(program)).loops) == 2


def test_values_that_change_places() -> None:
    """What one value is left as may be what another was; and what nobody reads needs no place."""
    b = Builder()
    x, y, row = b.input((4,), F32), b.input((4,), F32), b.input((4,), F32)
    body = Program(b.inputs, [y, x, b.map("mul", row, y), b.map("exp", row)])
    outer = Builder()
    src = [outer.input((4,), F32), outer.input((4,), F32), outer.input((5, 4), F32)]
    made = outer.loop(Loop(5, body, 2, ((0, 1),), ((0, 1), (0, 1))), src)
    program = Program(outer.inputs, made[:3])
    check(program, _arrays(program))


def test_packed_and_unpacked() -> None:
    recipe = check(_recurrent(4), _arrays(_recurrent(4)))
    _, sections = pack(recipe)
    assert unpack("again", sections).loops == recipe.loops


def test_operands_must_fit() -> None:
    b = Builder()
    with pytest.raises(ShapeError, match="loop"):
        b.loop(Loop(2, _cell(Builder()), 2, ((0, 1),), ((0, 1), (0, 1))), [b.input((3, 8), F32)] * 5)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=lambda dtype: dtype.label)
@pytest.mark.parametrize("terms", [1, 2], ids=["as it is", "transposed"])
def test_products_without_rows_columns_or_terms(dtype: DType, terms: int) -> None:
    """In a loop whose turns share the second factor, and behind a product: a sum of no terms is zero."""
    product = Contraction((0, 1), (terms, 3 - terms), (0, 2))
    for m, k, n in itertools.product((0, 40), (0, 40), (0, 32)):
        if m and k and n:
            continue
        factor = (k, n) if terms == 1 else (n, k)
        body = Builder()
        total, row, weight = (body.input(shape, dtype) for shape in ((m, n), (m, k), factor))
        total = body.map("add", total, body.contract(row, weight, product))
        loop = Loop(8, Program(body.inputs, [total, total]), 1, ((0, 1),), ((0, 1),))
        b = Builder()
        src = [b.input(shape, dtype) for shape in ((m, n), (8, m, k), factor)]
        program = Program(b.inputs, b.loop(loop, src))
        check(program, [np.ones(interpreter.dims(inner), dtype.numpy) for inner in program.inputs])
        b = Builder()
        first = b.map("exp", b.contract(b.input((m, k), dtype), b.input(factor, dtype), product))
        last = b.contract(first, b.input((n, 24), dtype), Contraction((0, 1), (1, 2), (0, 2)))
        program = Program(b.inputs, [b.map("add", last, b.input((m, 24), dtype))])
        check(program, [np.ones(interpreter.dims(inner), dtype.numpy) for inner in program.inputs])
