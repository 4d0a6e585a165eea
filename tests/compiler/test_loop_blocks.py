"""Loops in blocks of rows compute what the loop does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.compiler import costs
from habana_tf.hardware.cpu import target
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Loop, Program
from tests.compiler.blocked_loops import (
    F32,
    STEPS,
    UNITS,
    arrays_for,
    backward_layer,
    blocks_of,
    lstm,
    masked_layer,
    run_both_ways,
)
from tests.compiler.running import MATMUL, compiled


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = _bridge.get_threads()
    yield _bridge.set_threads
    _bridge.set_threads(before)


ROWS = [1, 2, 3, 7, 12, 13, 16, 26, 32, 33, 36, 37, 48, 54]
"""Batches: too small, prime, of odd blocks, and of more or fewer than a thread each."""


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("make", [lstm, backward_layer, masked_layer])
def test_blocks_compute_what_the_loop_does(make: Callable[[int], Program], rows: int, isa: str) -> None:
    program = make(rows)
    (loop,) = run_both_ways(program).loops
    assert loop.blocks == blocks_of(program)[0] == {12: 2, 16: 2, 26: 2, 32: 2, 33: 3, 36: 3, 48: 3, 54: 6}.get(rows, 1)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [3, 33, 48])
def test_an_lstm_is_one(rows: int, reverse: bool) -> None:
    """Beside its formula in float64."""
    program = lstm(rows, reverse=reverse)
    arrays = arrays_for(program)
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
    program = backward_layer(48)
    assert blocks_of(program) == [3]
    arrays = arrays_for(program)
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
    run_both_ways(lstm(rows, DType.BF16), 3e-2)


@pytest.mark.parametrize("make", [lstm, backward_layer, masked_layer])
def test_the_bits_are_those_of_any_number_of_threads(
    make: Callable[[int], Program], threads: Callable[[int], None]
) -> None:
    program = make(48)
    assert blocks_of(program) == [3]
    arrays = arrays_for(program)
    made = []
    for n in (1, 2, 3, 5):
        threads(n)
        made.append([a.tobytes() for a in compiled(program, arrays)[0]])
    assert all(other == made[0] for other in made[1:])


def test_weights_larger_than_a_core_s_cache_are_read_by_all_rows_at_once() -> None:
    def program(width: int) -> Program:
        body = Builder()
        x, w = body.input((32, width), F32), body.input((width, width), F32)
        loop = Loop(3, Program(body.inputs, [body.map("tanh", body.contract(x, w, MATMUL))]), 1)
        b = Builder()
        return Program(b.inputs, b.loop(loop, [b.input(n.shape, F32) for n in (x, w)]))

    fits = int((costs.LOOP_SHARED_BYTES // 4) ** 0.5)
    assert blocks_of(program(fits)) == [2]
    assert blocks_of(program(fits + 1)) == [1]


@pytest.mark.parametrize("rows", [12, 32, 33])
def test_weights_in_bf16_are_packed_once_for_all_blocks(rows: int, isa: str) -> None:
    """Where the CPU multiplies pairs, these are made before the loop; a block's rows alone would not pay for them."""
    recipe = run_both_ways(lstm(rows, DType.BF16), tolerance=3e-2)
    (loop,) = recipe.loops
    assert loop.blocks > 1
    goal = target()
    if goal.multiplies_bf16_pairs and goal.bf16_products == "dot":
        (packed,) = (row for row in recipe.kernels if row["does"] == "copy")
        assert packed["launches"][0] < loop.first
