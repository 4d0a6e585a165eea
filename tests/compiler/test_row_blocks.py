"""Attention in blocks of rows: what is cut, that it computes what it did, and that memory grows with the rows only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from habana_tf._native import _bridge
from habana_tf.compiler import row_block_groups, row_blocks
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.row_blocks import in_row_blocks
from habana_tf.hardware.cpu import target
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Op, Program
from tests.child import on_hpu
from tests.compiler.running import compiled
from tests.effort import THOROUGH

F32, BF16 = DType.F32, DType.BF16
SIZES = (2, 64, 3, 16, 96)
"""Batch, rows, heads, width of a head, columns."""


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = _bridge.get_threads()
    yield _bridge.set_threads
    _bridge.set_threads(before)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors count as wide, blocks are small, and nothing wide is handed over."""
    monkeypatch.setattr(row_block_groups, "SCORES_HANDED_BYTES", 0)
    monkeypatch.setattr(row_block_groups, "SCORES_BYTES", 1)
    monkeypatch.setattr(row_block_groups, "SCORES_BLOCK_BYTES", 1 << 15)


def _product(b: Builder, text: str, x: Node, y: Node) -> Node:
    """A contraction in the words of einsum, without spaces."""
    sides, out = text.split("->")
    number: dict[str, int] = {}
    a, c, out = (tuple(number.setdefault(x, len(number)) for x in part) for part in (*sides.split(","), out))
    return b.contract(x, y, Contraction(a, c, out))


def _attention(
    sizes: tuple[int, int, int, int, int] = SIZES, dtype: DType = F32, mask: str = "", backward: bool = True,
    scores: bool = False,
) -> Program:  # fmt: skip
    """Keras' attention and its gradients. Inputs: q, k, v, [a mask,] [the gradient of the output].

    mask: "causal", "given" for each row and column, "padding" for each example and column, or none. scores: whether
    probabilities leave the program.
    """
    batch, rows, heads, width, columns = sizes
    b = Builder()
    q = b.input((batch, rows, heads, width), dtype)
    k, v = (b.input((batch, columns, heads, width), dtype) for _ in range(2))
    scaled = b.map("mul", q, b.const(1 / math.sqrt(width), dtype, q.shape))
    x = b.cast(_product(b, "aecd,abcd->acbe", k, scaled), F32)
    if mask:
        if mask == "causal":
            allowed = b.map("ge", *(b.iota((1, 1, rows, columns), axis, DType.I32) for axis in (2, 3)))
        else:
            allowed = b.input((1, 1, rows, columns) if mask == "given" else (batch, 1, 1, columns), DType.BOOL)
        outside = b.map("sub", b.const(1, F32, allowed.shape), b.cast(allowed, F32))
        x = b.binary("add", x, b.map("mul", outside, b.const(-1e9, F32, allowed.shape)))

    def over(kind: str, y: Node) -> Node:
        return b.expand(b.reshape(b.reduce(kind, y, [3]), (*y.shape[:3], 1)), y.shape)

    e = b.map("exp", b.map("sub", x, over("max", x)))
    p = b.cast(b.map("div", e, over("sum", e)), dtype)
    o = _product(b, "acbe,aecd->abcd", p, v)
    outputs = [o]
    if backward:
        do = b.map("mul", b.input(o.shape, dtype), o)
        dv = _product(b, "acbe,abcd->aecd", p, do)
        dp = b.cast(_product(b, "abcd,aecd->acbe", do, v), F32)
        wide = b.cast(p, F32)
        ds = b.map("mul", wide, b.map("sub", dp, over("sum", b.map("mul", dp, wide))))
        ds = b.cast(ds, dtype)
        dk = _product(b, "acbe,abcd->aecd", ds, scaled)
        outputs += [_product(b, "acbe,aecd->abcd", ds, k), dk, dv]
    return Program(b.inputs, [*outputs, p] if scores else outputs)


def _loops(program: Program) -> list[Loop]:
    return list(dict.fromkeys(n.arg[0] for n in in_row_blocks(rewrite(program)).nodes() if n.op is Op.LOOP))


def _arrays(program: Program, seed: int = 0) -> list[Any]:
    numbers = np.random.default_rng(seed)
    made = []
    for n in program.inputs:
        x = numbers.standard_normal(interpreter.dims(n))
        made.append(x > -0.5 if n.dtype is DType.BOOL else x.astype(n.dtype.numpy))
    return made


def _in_float64(program: Program, arrays: list[Any], mask: str) -> list[Any]:
    """The same by NumPy in float64."""
    q, k, v, *rest = (x if x.dtype == bool else x.astype(np.float64) for x in arrays)
    q = q * float(np.asarray(1 / math.sqrt(q.shape[-1]), arrays[0].dtype))
    x = np.einsum("aecd,abcd->acbe", k, q)
    if mask:
        shape = x.shape[2:]
        allowed = np.tril(np.ones(shape, bool)) if mask == "causal" else rest[0]
        x = x + (1.0 - allowed) * -1e9
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    o = np.einsum("acbe,aecd->abcd", p, v)
    do = rest[-1] * o
    dp = np.einsum("abcd,aecd->acbe", do, v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    return [
        o, np.einsum("acbe,aecd->abcd", ds, k), np.einsum("acbe,abcd->aecd", ds, q),
        np.einsum("acbe,abcd->aecd", p, do),
    ]  # fmt: skip


def _close(got: list[Any], want: list[Any], tolerance: float) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=0, atol=tolerance * np.abs(w).max())


@pytest.mark.parametrize("mask", ["", "causal", "given", "padding"])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_forward_and_backward_are_a_loop_each(mask: str, dtype: DType) -> None:
    program = _attention(dtype=dtype, mask=mask)
    first, second = _loops(program)
    assert (first.carried, len(first.stacked)) == (0, 3)  # the output, and what each row comes to
    assert (second.carried, len(second.stacked)) == (2, 1)
    assert first.blocks == second.blocks == 6
    assert first.trips == second.trips > 1
    arrays = _arrays(program)
    got, _ = compiled(program, arrays)
    _close(got, _in_float64(program, arrays, mask), 2e-6 if dtype is F32 else 3e-2)
    assert [x.dtype for x in got] == [n.dtype.numpy for n in program.outputs]


@pytest.mark.parametrize("mask", ["", "causal", "given", "padding"])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_probabilities_that_are_not_too_large_are_handed_over(
    mask: str, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _attention(dtype=dtype, mask=mask)
    arrays = _arrays(program)
    again = compiled(program, arrays)[0]
    batch, rows, heads, _, columns = SIZES
    monkeypatch.setattr(row_block_groups, "SCORES_HANDED_BYTES", batch * rows * heads * columns * dtype.bytes)
    first, second = _loops(program)
    assert len(first.stacked) == 2 and second.trips == first.trips
    assert sum(n.op is Op.CONTRACT for n in second.body.nodes()) == 4
    got, _ = compiled(program, arrays)
    _close(got, _in_float64(program, arrays, mask), 2e-6 if dtype is F32 else 3e-2)
    assert got[0].tobytes() == again[0].tobytes()  # whichever way, the same probabilities are multiplied
    monkeypatch.setattr(row_block_groups, "SCORES_HANDED_BYTES", batch * rows * heads * columns * dtype.bytes - 1)
    second = _loops(program)[1]
    assert sum(n.op is Op.CONTRACT for n in second.body.nodes()) == 5


@pytest.mark.part
@settings(max_examples=30 if THOROUGH else 10, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(3, 80), st.integers(1, 4), st.integers(2, 9), st.integers(24, 70)),
    st.sampled_from(["", "causal", "given", "padding"]),
    st.sampled_from([F32, BF16]),
    st.sampled_from([0, 1 << 40]),
)
@example((1, 64, 4, 8, 64), "causal", F32, 0)
@example((2, 11, 3, 2, 61), "", BF16, 0)  # two of 132 gradients differ by 0.045 of the largest
@example((4, 37, 1, 5, 41), "given", BF16, 1 << 40)
@example((3, 9, 4, 2, 25), "", BF16, 0)  # scores that are rounded in one loop only: probabilities added up to 1.02
def test_any_sizes(sizes: tuple[int, int, int, int, int], mask: str, dtype: DType, handed: int) -> None:
    row_block_groups.SCORES_HANDED_BYTES = handed  # the fixture puts it back
    program = _attention(sizes, dtype, mask)
    arrays = _arrays(program, sum(sizes))
    got, _ = compiled(program, arrays)
    if dtype is F32:
        _close(got, _in_float64(program, arrays, mask), 4e-6)
    else:  # scores are rounded to bf16, which the interpreter does too; now and then one the other way
        _close(got, interpreter.run(program, arrays), 6e-2)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_the_program_means_the_same(dtype: DType) -> None:
    program = _attention(dtype=dtype, mask="causal")
    cut = in_row_blocks(rewrite(program))
    assert any(n.op is Op.LOOP for n in cut.nodes())
    arrays = _arrays(program)
    _close(interpreter.run(cut, arrays), interpreter.run(program, arrays), 2e-6 if dtype is F32 else 2e-2)


def test_rows_without_a_number_make_their_row_nan_only() -> None:
    program = _attention(backward=False)
    arrays = _arrays(program)
    arrays[0][1, 7, 2, 3] = np.nan
    ((got,), _) = compiled(program, arrays)
    wrong = np.zeros(got.shape, bool)
    wrong[1, 7, 2] = True
    np.testing.assert_array_equal(np.isnan(got), wrong)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_same_bits_for_any_number_of_threads(threads: Callable[[int], None], dtype: DType) -> None:
    program = _attention(dtype=dtype, mask="causal")
    arrays = _arrays(program)
    made = []
    for n in (1, 2, 3, 5):
        threads(n)
        made.append([x.tobytes() for x in compiled(program, arrays)[0]])
    assert all(x == made[0] for x in made)


def test_same_program_same_bytes() -> None:
    recipes = [compile_program(_attention(mask="causal"), "test", target()) for _ in range(2)]
    assert recipes[0].code == recipes[1].code
    assert recipes[0].calls == recipes[1].calls and recipes[0].loops == recipes[1].loops


def _workspace(rows: int) -> int:
    recipe: Recipe = compile_program(_attention((1, rows, 4, 16, rows), mask="causal"), "test", target())
    return recipe.workspace(())[1]


def test_memory_grows_with_the_rows_and_not_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_block_groups, "SCORES_BLOCK_BYTES", 1 << 16)
    short, long = _workspace(256), _workspace(1024)
    assert long < 4.2 * short
    monkeypatch.setattr(row_block_groups, "SCORES_BYTES", 1 << 40)
    assert _workspace(1024) > 4 * long


def test_wide_values_that_leave_the_program_are_left() -> None:
    assert _loops(_attention(scores=True)) == []


def test_too_few_heads_are_left() -> None:
    assert _loops(_attention((1, 64, 3, 16, 96))) == []
    assert len(_loops(_attention((1, 64, 4, 16, 96)))) == 2


@pytest.mark.parametrize("handed", [0, 1 << 40])
def test_loops_do_not_wait_for_each_other(handed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attentions in a row, whose scores come from elsewhere: what the first one's output is made of and what its
    values' gradient is made of lie on either side of what the second one is made of."""
    monkeypatch.setattr(row_block_groups, "SCORES_HANDED_BYTES", handed)
    b = Builder()
    rows, heads, width = 64, 4, 16
    q, k, other_q, other_k, v, do = (b.input((rows, heads, width), F32) for _ in range(6))

    def probabilities(q: Node, k: Node) -> Node:
        def over(kind: str, y: Node) -> Node:
            return b.expand(b.reshape(b.reduce(kind, y, [2]), (heads, rows, 1)), y.shape)

        x = _product(b, "ecd,bcd->cbe", k, q)
        e = b.map("exp", b.map("sub", x, over("max", x)))
        return b.map("div", e, over("sum", e))

    first, second = probabilities(q, k), probabilities(other_q, other_k)
    o = _product(b, "cbe,ecd->bcd", second, _product(b, "cbe,ecd->bcd", first, v))
    dv = _product(b, "cbe,bcd->ecd", first, _product(b, "cbe,bcd->ecd", second, do))
    program = Program(b.inputs, [o, dv])
    assert len(_loops(program)) == 1  # the other end of the second one would be waited for, and waits
    arrays = _arrays(program)
    _close(compiled(program, arrays)[0], interpreter.run(program, arrays), 4e-6)


def test_what_fits_the_cache_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, rows, heads, _, columns = SIZES
    size = batch * rows * heads * columns * 4
    monkeypatch.setattr(row_block_groups, "SCORES_BYTES", size)
    assert len(_loops(_attention())) == 2
    monkeypatch.setattr(row_block_groups, "SCORES_BYTES", size + 1)
    assert _loops(_attention()) == []


@on_hpu
def test_keras_attention_and_its_gradients_are_those_of_stock_tensorflow() -> None:
    for masked, policy, handed in itertools.product([False, True], ["float32", "mixed_bfloat16"], [0, 1 << 40]):
        small = {"SCORES_HANDED_BYTES": handed, "SCORES_BYTES": 1, "SCORES_BLOCK_BYTES": 1 << 15}
        with mock.patch.multiple(row_block_groups, **small):
            _compare_with_stock(masked, policy, rows=40 + 8 * masked + 16 * (handed > 0))


def _compare_with_stock(masked: bool, policy: str, rows: int) -> None:
    """rows: others for each case, so that no recipe of another one is taken."""
    import tensorflow as tf

    found: list[int] = []

    def counted(program: Program) -> list[row_block_groups.ProductGroup]:
        made = row_block_groups.groups(program)
        found.append(len(made))
        return made

    def results(device: str, policy: str) -> list[Any]:
        with tf.device(device):
            tf.keras.utils.set_random_seed(3)
            attention = tf.keras.layers.MultiHeadAttention(4, 8, dtype=policy)
            x = tf.random.stateless_normal((2, rows, 24), [1, 2])
            attention(x, x)

            @tf.function
            def step(x: Any) -> Any:
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = attention(x, x, use_causal_mask=masked)
                    loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
                return [y, *tape.gradient(loss, [x, *attention.trainable_variables])]

            return [np.asarray(tf.cast(v, tf.float32)) for v in step(x)]

    with mock.patch.object(row_blocks, "groups", counted):
        got = results("/HPU:0", policy)
    assert 2 in found
    want = results("/CPU:0", "float32")
    scale = max(np.abs(w).max() for w in want)  # gradients of the keys' biases are sums of numbers that cancel
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=scale * (1e-5 if policy == "float32" else 4e-2))


def test_sums_over_rows_are_added_where_they_are() -> None:
    """The gradients of k and v have one buffer in the loop that carries them."""
    recipe = compile_program(_attention(mask="causal"), "test", target())
    carried = [value for loop in recipe.loops for value in loop.carried]
    assert len(carried) == 2 and all(now == then for now, then, _, _ in carried)
