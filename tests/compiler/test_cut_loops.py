"""Which loops are cut into blocks of rows: all whose rows keep apart, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from habana_tf.compiler.loop_blocks import in_blocks
from habana_tf.compiler.rewrite import rewrite
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Program
from tests.compiler.blocked_loops import F32, UNITS, blocks_of, loops_of, run_both_ways
from tests.compiler.running import MATMUL


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
    assert blocks_of(program) == [1]
    run_both_ways(program)


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
    assert blocks_of(program) == [2]
    run_both_ways(program, 1e-4)


def test_a_tensor_that_is_read_by_rows_and_as_a_whole() -> None:
    """What is the same in all iterations may be both: every row meets the rows of all blocks."""
    body = Builder()
    x, m = body.input((32, 8), F32), body.input((32, 8), F32)
    scores = body.contract(x, m, Contraction((0, 1), (2, 1), (0, 2)))
    mean = body.contract(body.map("tanh", scores), m, MATMUL)
    loop = Loop(3, Program(body.inputs, [body.map("tanh", body.map("add", mean, m))]), 1)
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((32, 8), F32), b.input((32, 8), F32)]))
    assert blocks_of(program) == [2]
    run_both_ways(program)


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
    assert blocks_of(program) == [1]
    run_both_ways(program)


def test_a_row_each_step_has_in_common() -> None:
    """A slice without rows, as a step's learning rate is, goes to all blocks."""
    body = Builder()
    x, rate = body.input((32, 4), F32), body.input((), F32)
    loop = Loop(5, Program(body.inputs, [body.binary("mul", x, rate)]), 1, ((4, -1),))
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((32, 4), F32), b.input((5,), F32)]))
    assert blocks_of(program) == [2]
    run_both_ways(program)


def test_rows_behind_axes_of_one() -> None:
    body = Builder()
    x = body.input((1, 32, 4), F32)
    loop = Loop(3, Program(body.inputs, [body.map("tanh", x), body.map("exp", x)]), 1, (), ((2, -1),))
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((1, 32, 4), F32)]))
    assert blocks_of(program) == [2]
    run_both_ways(program)


def test_outputs_without_rows_keep_a_loop_whole() -> None:
    body = Builder()
    x, n = body.input((32, 4), F32), body.input((), F32)
    loop = Loop(3, Program(body.inputs, [body.map("tanh", x), body.binary("add", n, body.const(1, F32))]), 2)
    b = Builder()
    program = Program(b.inputs, b.loop(loop, [b.input((32, 4), F32), b.input((), F32)]))
    assert blocks_of(program) == [1]
    run_both_ways(program)


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
    assert [n.blocks for n in loops_of(cut)] == [1]
    assert [n.blocks for n in loops_of(loops_of(cut)[0].body)] == [2]
    assert [(n.trips, n.blocks) for n in run_both_ways(program).loops] == [(4, 1), (3, 2)]


def test_no_iteration_or_one_is_not_worth_it() -> None:
    program = _carried(lambda b, x, w: b.map("tanh", x))
    loop, k = program.outputs[0].arg
    for trips in (0, 1):
        outputs = [replace(program.outputs[0], arg=(replace(loop, trips=trips), k))]
        assert blocks_of(Program(program.inputs, outputs)) == [1]
        run_both_ways(Program(program.inputs, outputs))
