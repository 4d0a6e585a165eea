"""Loops in blocks of rows: what is cut, and that it computes what the loop does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.compiler import costs
from habana_tf.compiler.loop_blocks import in_blocks
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.rewrite import rewrite
from habana_tf.hardware.cpu import target
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Op, Program
from tests.compiler.running import compiled

F32 = DType.F32
STEPS, INPUTS, UNITS = 7, 5, 24
MATMUL = Contraction((0, 1), (1, 2), (0, 2))
BY_TRANSPOSED = Contraction((0, 1), (2, 1), (0, 2))


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = _bridge.get_threads()
    yield _bridge.set_threads
    _bridge.set_threads(before)


def _loops(program: Program) -> list[Loop]:
    return list(dict.fromkeys(n.arg[0] for n in program.nodes() if n.op is Op.LOOP))


def _blocks(program: Program) -> list[int]:
    return [loop.blocks for loop in _loops(in_blocks(rewrite(program)))]


def _lstm(rows: int, dtype: DType = F32, reverse: bool = False) -> Program:
    """Inputs: x[t] of all gates, h, c, weights, bias. Outputs: h, c, and h and c of all steps, in the order of x."""
    body = Builder()
    h, c = (body.input((rows, UNITS), dtype) for _ in range(2))
    x = body.input((rows, 4 * UNITS), dtype)
    w, bias = body.input((UNITS, 4 * UNITS), dtype), body.input((4 * UNITS,), dtype)
    z = body.binary("add", body.map("add", x, body.contract(h, w, MATMUL)), bias)
    i, f, g, o = (body.slice(z, (0, k * UNITS), (rows, UNITS)) for k in range(4))
    kept = body.map("mul", body.map("sigmoid", f), c)
    c_next = body.map("add", kept, body.map("mul", body.map("sigmoid", i), body.map("tanh", g)))
    h_next = body.map("mul", body.map("sigmoid", o), body.map("tanh", c_next))
    at = (STEPS - 1, -1) if reverse else (0, 1)
    loop = Loop(STEPS, Program(body.inputs, [h_next, c_next, h_next, c_next]), 2, (at,), (at, at))
    b = Builder()
    xs = b.input((STEPS, rows, 4 * UNITS), dtype)
    given = [b.input(n.shape, dtype) for n in (h, c)]
    shared = [b.input(n.shape, dtype) for n in (w, bias)]
    return Program(b.inputs, b.loop(loop, [*given, xs, *shared]))


def _backward(rows: int) -> Program:
    """dz of all steps and dh, of a layer h = tanh(x + h @ w), from the last step to the first; and the gradient of w,
    which is summed over all rows behind the loop."""
    body = Builder()
    dh = body.input((rows, UNITS), F32)
    dy, y = (body.input((rows, UNITS), F32) for _ in range(2))
    w = body.input((UNITS, UNITS), F32)
    slope = body.binary("sub", body.const(1, F32), body.map("mul", y, y))
    dz = body.map("mul", body.map("add", dh, dy), slope)
    back = STEPS - 1, -1
    loop = Loop(STEPS, Program(body.inputs, [body.contract(dz, w, BY_TRANSPOSED), dz]), 1, (back, back), (back,))
    b = Builder()
    first = b.input((rows, UNITS), F32)
    dys, ys = (b.input((STEPS, rows, UNITS), F32) for _ in range(2))
    weights = b.input((UNITS, UNITS), F32)
    left, dzs = b.loop(loop, [first, dys, ys, weights])
    dw = b.contract(ys, dzs, Contraction((3, 1, 0), (3, 1, 2), (0, 2)))
    return Program(b.inputs, [left, dzs, dw])


def _masked(rows: int) -> Program:
    """A layer whose rows end at different steps: a finished row keeps its state, and has zeros in the list."""
    body = Builder()
    h, x = body.input((rows, UNITS), F32), body.input((rows, UNITS), F32)
    mask = body.input((rows, 1), DType.BOOL)
    w = body.input((UNITS, UNITS), F32)
    made = body.map("tanh", body.map("add", x, body.contract(h, w, MATMUL)))
    listed = body.select(mask, made, body.const(0, F32))
    loop = Loop(STEPS, Program(body.inputs, [body.select(mask, made, h), listed]), 1, ((0, 1), (0, 1)), ((0, 1),))
    b = Builder()
    first, xs = b.input((rows, UNITS), F32), b.input((STEPS, rows, UNITS), F32)
    masks, weights = b.input((STEPS, rows, 1), DType.BOOL), b.input((UNITS, UNITS), F32)
    return Program(b.inputs, b.loop(loop, [first, xs, masks, weights]))


def _arrays(program: Program, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = []
    for node in program.inputs:
        values = rng.normal(size=[int(n) for n in node.shape if isinstance(n, int)]) / 4
        made.append((values > 0 if node.dtype is DType.BOOL else values).astype(node.dtype.numpy))
    return made


def _agrees(program: Program, tolerance: float = 1e-5) -> Recipe:
    """Compiled, and by the interpreter in blocks, beside the interpreter's loop as it was written."""
    arrays = _arrays(program)
    want = interpreter.run(program, arrays)
    got, recipe = compiled(program, arrays)
    for way in (got, interpreter.run(in_blocks(rewrite(program)), arrays)):
        for mine, other in zip(way, want, strict=True):
            np.testing.assert_allclose(
                mine.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance
            )
    return recipe


ROWS = [1, 2, 3, 7, 12, 13, 16, 26, 32, 33, 36, 37, 48, 54]
"""Batches: too small, prime, of odd blocks, and of more or fewer than a thread each."""


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("make", [_lstm, _backward, _masked])
def test_blocks_compute_what_the_loop_does(make: Callable[[int], Program], rows: int, isa: str) -> None:
    program = make(rows)
    (loop,) = _agrees(program).loops
    assert loop.blocks == _blocks(program)[0] == {12: 2, 16: 2, 26: 2, 32: 2, 33: 3, 36: 3, 48: 3, 54: 6}.get(rows, 1)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [3, 33, 48])
def test_an_lstm_is_one(rows: int, reverse: bool) -> None:
    """Beside its formula in float64."""
    program = _lstm(rows, reverse=reverse)
    arrays = _arrays(program)
    xs, h, c, w, bias = (a.astype(np.float64) for a in arrays)
    hs, cs = np.zeros((2, STEPS, rows, UNITS))
    for t in reversed(range(STEPS)) if reverse else range(STEPS):
        i, f, g, o = np.split(xs[t] + h @ w + bias, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        hs[t], cs[t] = h, c
    got, _ = compiled(program, arrays)
    for mine, want in zip(got, (h, c, hs, cs), strict=True):
        np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)


def test_a_backward_pass_is_one() -> None:
    """Beside its formula in float64; the gradient of the weights is summed over the rows of all blocks."""
    program = _backward(48)
    assert _blocks(program) == [3]
    arrays = _arrays(program)
    dh, dys, ys, w = (a.astype(np.float64) for a in arrays)
    dzs = np.zeros_like(ys)
    for t in reversed(range(STEPS)):
        dzs[t] = (dh + dys[t]) * (1 - ys[t] * ys[t])
        dh = dzs[t] @ w.T
    got, _ = compiled(program, arrays)
    for mine, want in zip(got, (dh, dzs, np.einsum("tni,tnj->ij", ys, dzs)), strict=True):
        np.testing.assert_allclose(mine, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [3, 32])
def test_bf16(rows: int, isa: str) -> None:
    """A step's rounding may differ by one, which the next steps carry on."""
    _agrees(_lstm(rows, DType.BF16), 3e-2)


@pytest.mark.parametrize("make", [_lstm, _backward, _masked])
def test_the_bits_are_those_of_any_number_of_threads(
    make: Callable[[int], Program], threads: Callable[[int], None]
) -> None:
    program = make(48)
    assert _blocks(program) == [3]
    arrays = _arrays(program)
    made = []
    for n in (1, 2, 3, 5):
        threads(n)
        made.append([a.tobytes() for a in compiled(program, arrays)[0]])
    assert all(other == made[0] for other in made[1:])


def _carried(make: Callable[[Builder, Node, Node], Node], rows: int = 32, dtype: DType = F32) -> Program:
    """A loop of what `make` does to a carried [rows, UNITS] and a matrix [UNITS, UNITS] that is the same for all."""
    body = Builder()
    x, w = body.input((rows, UNITS), dtype), body.input((UNITS, UNITS), dtype)
    loop = Loop(3, Program(body.inputs, [make(body, x, w)]), 1)
    b = Builder()
    given = [b.input(n.shape, dtype) for n in (x, w)]
    return Program(b.inputs, b.loop(loop, given))


def _centred(b: Builder, x: Node, w: Node) -> Node:
    return b.binary("sub", x, b.reduce("max", x, [0]))


def _mixed(b: Builder, x: Node, w: Node) -> Node:
    gram = b.contract(x, x, Contraction((1, 0), (1, 2), (0, 2)))
    return b.map("tanh", b.binary("mul", b.contract(x, gram, MATMUL), b.const(1 / 64, F32)))


def _turned(b: Builder, x: Node, w: Node) -> Node:
    return b.reverse(x, [0])


def _numbered(b: Builder, x: Node, w: Node) -> Node:
    return b.map("add", x, b.iota(x.shape, 0, F32))


def _joined(b: Builder, x: Node, w: Node) -> Node:
    return b.concat([b.slice(x, (16, 0), (16, UNITS)), b.slice(x, (0, 0), (16, UNITS))], 0)


def _running(b: Builder, x: Node, w: Node) -> Node:
    return b.map("tanh", b.scan("sum", x, 0))


@pytest.mark.parametrize("make", [_centred, _mixed, _turned, _numbered, _joined, _running])
def test_what_needs_rows_of_other_blocks_stays_whole(make: Callable[[Builder, Node, Node], Node]) -> None:
    program = _carried(make)
    assert _blocks(program) == [1]
    _agrees(program)


def _softmax(b: Builder, x: Node, w: Node) -> Node:
    e = b.map("exp", b.binary("sub", x, b.reshape(b.reduce("max", x, [1]), (x.shape[0], 1))))
    return b.binary("div", e, b.reshape(b.reduce("sum", e, [1]), (x.shape[0], 1)))


def _heads(b: Builder, x: Node, w: Node) -> Node:
    """Rows in the middle of a tensor, and by themselves again."""
    apart = b.permute(b.reshape(x, (x.shape[0], 4, UNITS // 4)), (1, 0, 2))
    return b.reshape(b.permute(b.map("tanh", apart), (1, 0, 2)), x.shape)


def _columns(b: Builder, x: Node, w: Node) -> Node:
    """Running sums along a row, of a row with zeros around, sorted."""
    n = x.shape[0]
    padded = b.pad(b.scan("sum", x, 1, exclusive=True), (0, 1), (0, 2))
    order = b.sort(b.slice(padded, (0, 1), (n, UNITS)), 1)
    return b.map("add", b.map("tanh", x), b.cast(order, F32))


def _rows_of_a_table(b: Builder, x: Node, w: Node) -> Node:
    """Each row looks one up in what all have in common."""
    at = b.cast(b.binary("mul", b.reduce("max", b.map("tanh", x), [1]), b.const(UNITS, F32)), DType.I32)
    return b.map("add", b.map("tanh", x), b.gather(w, [at], (0,)))


def _put(b: Builder, x: Node, w: Node) -> Node:
    """A column of every row is written."""
    where = b.literal(np.array([3, 7], np.int32))
    column = b.reshape(b.reduce("sum", x, [1]), (1, x.shape[0]))
    return b.scatter(x, b.expand(column, (2, x.shape[0])), [where], (1,), "set")


def _seen_whole_too(b: Builder, x: Node, w: Node) -> Node:
    return b.binary("add", b.contract(x, w, MATMUL), b.reduce("sum", w, [0]))


@pytest.mark.parametrize("make", [_softmax, _heads, _columns, _rows_of_a_table, _put, _seen_whole_too])
def test_what_keeps_rows_apart_is_cut(make: Callable[[Builder, Node, Node], Node]) -> None:
    program = _carried(make)
    assert _blocks(program) == [2]
    _agrees(program, 1e-4)


def test_a_tensor_that_is_read_by_rows_and_as_a_whole() -> None:
    """What is the same in all iterations may be both: every row meets the rows of all blocks."""
    body = Builder()
    x, m = body.input((32, 8), F32), body.input((32, 8), F32)
    scores = body.contract(x, m, Contraction((0, 1), (2, 1), (0, 2)))
    mean = body.contract(body.map("tanh", scores), m, MATMUL)
    loop = Loop(3, Program(body.inputs, [body.map("tanh", body.map("add", mean, m))]), 1)
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((32, 8), F32), b.input((32, 8), F32)]))
    assert _blocks(program) == [2]
    _agrees(program)


def test_a_list_of_rows_is_cut_along_its_second_axis_nowhere() -> None:
    """A carried list has its rows behind the steps: a block of it does not lie together."""
    body = Builder()
    x, kept = body.input((32, 4), F32), body.input((6, 32, 4), F32)
    at = body.input((), DType.I32)
    more = body.map("tanh", x)
    put = body.scatter(kept, body.reshape(more, (1, 32, 4)), [body.reshape(at, (1,))], (0,), "set")
    loop = Loop(6, Program(body.inputs, [more, put]), 2, ((0, 1),))
    b = Builder()
    given = [b.input((32, 4), F32), b.input((6, 32, 4), F32), b.literal(np.array([5, 3, 1, 0, 2, 4], np.int32))]
    program = Program(b.inputs, b.loop(loop, given))
    assert _blocks(program) == [1]
    _agrees(program)


def test_a_row_each_step_has_in_common() -> None:
    """A slice without rows, as a step's learning rate is, goes to all blocks."""
    body = Builder()
    x, rate = body.input((32, 4), F32), body.input((), F32)
    loop = Loop(5, Program(body.inputs, [body.binary("mul", x, rate)]), 1, ((4, -1),))
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((32, 4), F32), b.input((5,), F32)]))
    assert _blocks(program) == [2]
    _agrees(program)


def test_rows_behind_axes_of_one() -> None:
    body = Builder()
    x = body.input((1, 32, 4), F32)
    loop = Loop(3, Program(body.inputs, [body.map("tanh", x), body.map("exp", x)]), 1, (), ((2, -1),))
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((1, 32, 4), F32)]))
    assert _blocks(program) == [2]
    _agrees(program)


def test_outputs_without_rows_keep_a_loop_whole() -> None:
    body = Builder()
    x, n = body.input((32, 4), F32), body.input((), F32)
    loop = Loop(3, Program(body.inputs, [body.map("tanh", x), body.binary("add", n, body.const(1, F32))]), 2)
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((32, 4), F32), b.input((), F32)]))
    assert _blocks(program) == [1]
    _agrees(program)


def test_a_loop_in_a_loop() -> None:
    """The inner one is cut, the outer one is not: its iterations are launches of the inner one's blocks."""
    inner = _carried(lambda b, x, w: b.map("tanh", b.contract(x, w, MATMUL)))
    body = Builder()
    x, w = body.input((32, UNITS), F32), body.input((UNITS, UNITS), F32)
    (made,) = body.loop(inner.outputs[0].arg[0], [x, w])
    loop = Loop(4, Program(body.inputs, [body.map("neg", made), made]), 1, (), ((0, 1),))
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input(n.shape, F32) for n in (x, w)]))
    cut = in_blocks(rewrite(program))
    assert [n.blocks for n in _loops(cut)] == [1]
    assert [n.blocks for n in _loops(_loops(cut)[0].body)] == [2]
    assert [(n.trips, n.blocks) for n in _agrees(program).loops] == [(4, 1), (3, 2)]


def test_weights_larger_than_a_core_s_cache_are_read_by_all_rows_at_once() -> None:
    def program(width: int) -> Program:
        body = Builder()
        x, w = body.input((32, width), F32), body.input((width, width), F32)
        loop = Loop(3, Program(body.inputs, [body.map("tanh", body.contract(x, w, MATMUL))]), 1)
        b = Builder()
        return Program(b.inputs, b.loop(loop, [b.input(n.shape, F32) for n in (x, w)]))

    fits = int((costs.LOOP_SHARED_BYTES // 4) ** 0.5)
    assert _blocks(program(fits)) == [2]
    assert _blocks(program(fits + 1)) == [1]


@pytest.mark.parametrize("rows", [12, 32, 33])
def test_weights_in_bf16_are_packed_once_for_all_blocks(rows: int, isa: str) -> None:
    """Where the CPU multiplies pairs, these are made before the loop; a block's rows alone would not pay for them."""
    recipe = _agrees(_lstm(rows, DType.BF16), tolerance=3e-2)
    (loop,) = recipe.loops
    assert loop.blocks > 1
    goal = target()
    if goal.multiplies_bf16_pairs and goal.bf16_products == "dot":
        (packed,) = (row for row in recipe.kernels if row["does"] == "copy")
        assert packed["launches"][0] < loop.first


def test_no_iteration_or_one_is_not_worth_it() -> None:
    program = _carried(lambda b, x, w: b.map("tanh", x))
    loop, k = program.outputs[0].arg
    for trips in (0, 1):
        outputs = [replace(program.outputs[0], arg=(replace(loop, trips=trips), k))]
        assert _blocks(Program(program.inputs, outputs)) == [1]
        _agrees(Program(program.inputs, outputs))
