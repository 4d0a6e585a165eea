"""Loops over rows, the blocks that they are cut into, and both ways to run them."""

from __future__ import annotations

from typing import Any

import numpy as np

from habana_tf.compiler.loop_blocks import in_blocks
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.rewrite import rewrite
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Op, Program
from tests.compiler.running import MATMUL, compiled

F32 = DType.F32
STEPS, INPUTS, UNITS = 7, 5, 24
BY_TRANSPOSED = Contraction((0, 1), (2, 1), (0, 2))


def loops_of(program: Program) -> list[Loop]:
    return list(dict.fromkeys(n.arg[0] for n in program.nodes() if n.op is Op.LOOP))


def blocks_of(program: Program) -> list[int]:
    return [loop.blocks for loop in loops_of(in_blocks(rewrite(program)))]


def lstm(rows: int, dtype: DType = F32, reverse: bool = False) -> Program:
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


def backward_layer(rows: int) -> Program:
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


def masked_layer(rows: int) -> Program:
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


def arrays_for(program: Program, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = []
    for node in program.inputs:
        values = rng.normal(size=[int(n) for n in node.shape if isinstance(n, int)]) / 4
        made.append((values > 0 if node.dtype is DType.BOOL else values).astype(node.dtype.numpy))
    return made


def run_both_ways(program: Program, tolerance: float = 1e-5) -> Recipe:
    """Compiled, and by the interpreter in blocks, beside the interpreter's loop as it was written."""
    arrays = arrays_for(program)
    want = interpreter.run(program, arrays)
    got, recipe = compiled(program, arrays)
    for way in (got, interpreter.run(in_blocks(rewrite(program)), arrays)):
        for mine, other in zip(way, want, strict=True):
            np.testing.assert_allclose(
                mine.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance
            )
    return recipe
