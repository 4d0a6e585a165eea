"""Runs a program both ways: compiled for this CPU, and by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from habana_tf._native import _bridge
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.recipe import Recipe, bind
from habana_tf.hardware.cpu import target
from habana_tf.ir import interpreter
from habana_tf.ir.primitives import Contraction, Program

MATMUL = Contraction((0, 1), (1, 2), (0, 2))
"""Rows by columns."""


def compiled(program: Program, arrays: Sequence[Any], states: Sequence[Any] = ()) -> tuple[list[Any], Recipe]:
    """The outputs of the compiled program, and its recipe."""
    goal = target()
    recipe = compile_program(program, "test", goal)
    bound = bind(recipe, (), None, goal)
    raw = _bridge.run_program(bound, [np.ascontiguousarray(a) for a in arrays], [s.tobytes() for s in states])
    out = []
    for data, node in zip(raw, program.outputs, strict=True):
        out.append(data.view(node.dtype.numpy).reshape([int(n) for n in node.shape]))
    return out, recipe


def check(
    program: Program, arrays: Sequence[Any], *, rtol: float = 1e-5, atol: float = 1e-6, states: Sequence[Any] = ()
) -> Recipe:
    """Asserts that both ways agree; gives the recipe for further looks."""
    want = interpreter.run(program, list(arrays), list(states))
    got, recipe = compiled(program, arrays, states)
    for g, w, node in zip(got, want, program.outputs, strict=True):
        if node.dtype.is_float:
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(g, w)
    return recipe


def check_range(program: Program, sizes: Sequence[Sequence[int]], *, rtol: float = 1e-5, atol: float = 1e-5) -> Recipe:
    """Asserts that one recipe over symbolic extents agrees with the interpreter for each `sizes` of the symbols."""
    goal = target()
    recipe = compile_program(program, "test", goal)
    for dims in sizes:
        bound = interpreter.bind(program, dims)
        rng = np.random.default_rng(sum(dims))
        arrays = [rng.standard_normal(interpreter.dims(n)).astype(n.dtype.numpy) for n in bound.inputs]
        raw = _bridge.run_program(bind(recipe, dims, None, goal), arrays, [])
        for data, want in zip(raw, interpreter.run(bound, arrays), strict=True):
            got = data.view(want.dtype).reshape(want.shape).astype(np.float64)
            np.testing.assert_allclose(got, want.astype(np.float64), rtol=rtol, atol=atol, err_msg=f"sizes {dims}")
    return recipe
