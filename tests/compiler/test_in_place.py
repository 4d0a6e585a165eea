"""Updates in place: which copies of a scatter's base are not made, and which variables are written over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import pack, unpack
from habana_tf.compiler.recipe import Kind, Recipe, bind
from habana_tf.hardware.cpu import target
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program

F32 = np.float32


def put(b: Builder, base: Node, row: Node, at: Node) -> Node:
    """base with one row replaced."""
    return b.scatter(base, row, [b.reshape(at, (1,))], [0], "set")


def given() -> tuple[Builder, Node, Node, Node]:
    b = Builder()
    return b, b.input((8, 5), DType.F32), b.input((1, 5), DType.F32), b.input((), DType.I32)


ARRAYS = [np.arange(40, dtype=F32).reshape(8, 5), np.full((1, 5), -1, F32), np.array(3, np.int32)]


def run(program: Program) -> Recipe:
    """Its recipe, after comparing what it computes with the interpreter."""
    from habana_tf._native import _bridge

    goal = target()
    recipe = compile_program(program, "test", goal)
    got = _bridge.run_program(bind(recipe, (), None, goal), ARRAYS)
    for raw, want in zip(got, interpreter.run(program, ARRAYS, []), strict=True):
        np.testing.assert_array_equal(raw.view(want.dtype).reshape(want.shape), want)
    return recipe


def test_an_input_that_only_its_update_reads_may_be_taken_over() -> None:
    b, cache, row, at = given()
    recipe = run(Program(b.inputs, [b.map("neg", row), put(b, cache, row, at)], []))
    ((_, source, output),) = recipe.copies
    assert (source, output) == (0, 1)
    assert unpack("test", pack(recipe)[1]).copies == recipe.copies


def test_an_input_that_anything_else_reads_is_copied() -> None:
    b, cache, row, at = given()
    outputs: list[Any] = [put(b, cache, row, at), b.reduce("sum", cache, [0])]
    assert run(Program(b.inputs, outputs, [])).copies == []
    b, cache, row, at = given()
    assert run(Program(b.inputs, [put(b, cache, row, at), put(b, cache, b.map("neg", row), at)], [])).copies == []


def test_an_update_that_is_computed_of_what_it_replaces_is_computed_before() -> None:
    b, cache, _, at = given()
    moved = b.map("neg", b.slice(cache, (2, 0), (1, 5)))
    recipe = run(Program(b.inputs, [put(b, cache, moved, at)], []))
    ((call, source, output),) = recipe.copies
    assert (source, output) == (0, 0) and call == 1


def test_scatters_that_follow_each_other_share_their_memory() -> None:
    b, cache, row, at = given()
    first = put(b, cache, row, at)
    second = put(b, first, b.map("neg", row), b.map("add", at, b.const(1, DType.I32)))
    third = put(b, second, row, b.map("add", at, b.const(2, DType.I32)))
    recipe = run(Program(b.inputs, [third], []))
    assert len(recipe.calls) == 4, "one copy and three updates"
    assert len(recipe.copies) == 1
    assert recipe.workspace()[1] == 0


def test_a_scatter_that_is_read_later_keeps_its_memory() -> None:
    b, cache, row, at = given()
    first = put(b, cache, row, at)
    second = put(b, first, b.slice(first, (0, 0), (1, 5)), at)
    assert len(run(Program(b.inputs, [second], [])).calls) == 4
    b, cache, row, at = given()
    first = put(b, cache, row, at)
    assert len(run(Program(b.inputs, [first, put(b, first, b.map("neg", row), at)], [])).calls) == 4


def product(b: Builder, x: Node, y: Node) -> Node:
    return b.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))


def trained(make: Callable[[Builder, Node, Node], Node]) -> Recipe:
    """A step on a weight [24, 24]: new values, and what a product with the old ones gives."""
    b = Builder()
    w, x = b.input((24, 24), DType.F32), b.input((24, 24), DType.F32)
    back = product(b, x, w)
    return compile_program(Program(b.inputs, [make(b, w, x), back], updates=((0, 0),)), "test", target())


def test_a_weight_is_written_over_when_all_others_have_read_it() -> None:
    def descended(b: Builder, w: Node, x: Node) -> Node:
        return b.map("sub", w, b.map("mul", product(b, x, x), b.const(0.1, DType.F32, (24, 24))))

    recipe = trained(descended)
    assert recipe.in_place == [(0, 0)]
    assert unpack("test", pack(recipe)[1]).in_place == recipe.in_place
    numbers = {(b.kind, b.index): k for k, b in enumerate(recipe.buffers)}
    old, new = numbers[Kind.INPUT, 0], numbers[Kind.OUTPUT, 0]
    last = max(k for k, call in enumerate(recipe.calls) if old in call.buffers)
    assert last == min(k for k, call in enumerate(recipe.calls) if new in call.buffers)
    assert len(recipe.calls) > 1 and last == len(recipe.calls) - 1, "the product that reads the old one goes first"


def test_a_weight_that_is_read_elsewhere_than_it_is_written_is_not() -> None:
    assert trained(lambda b, w, x: b.map("add", b.permute(w, (1, 0)), x)).in_place == []
    assert trained(lambda b, w, x: product(b, w, w)).in_place == []


def test_a_weight_whose_sums_are_made_first_is_written_over() -> None:
    def centred(b: Builder, w: Node, x: Node) -> Node:
        return b.map("sub", w, b.broadcast_in_dim(b.reduce("sum", w, [1]), (24, 24), [0]))

    assert trained(centred).in_place == [(0, 0)]
