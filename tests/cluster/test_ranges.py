"""Forms over symbolic extents, and programs over them: one recipe, every size, the interpreter's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from habana_tf.cluster.ranges import SizeRange, generalize, guesses, kin
from habana_tf.cluster.signature import Signature
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program
from tests.compiler.running import check_range

F, BF = DType.F32, DType.BF16
S, T = ext.sym(0), ext.sym(1)


def met(*shapes: tuple[int, ...], value: list[int] | None = None) -> Signature:
    values: list[Any] = [None] * len(shapes)
    if value is not None:
        values[-1] = np.array(value, np.int32)
    return Signature.of(shapes, values)


def shown(form: SizeRange | None) -> list[str]:
    assert form is not None
    return [str(n) for n in form.numbers]


# -- forms --------------------------------------------------------------------------------------------------


def test_what_changed_alike_is_one_symbol() -> None:
    form = generalize([met((64, 8), (64,), (8, 10)), met((29, 8), (29,), (8, 10))])
    assert shown(form) == ["s0", "8", "s0", "8", "10"]
    assert form is not None
    assert form.shapes(3) == [(S, 8), (S,), (8, 10)]
    assert form.dims(met((7, 8), (7,), (8, 10))) == [7]
    assert form.dims(met((7, 8), (6,), (8, 10))) is None
    assert form.dims(met((7, 9), (7,), (8, 10))) is None
    assert form.dims(met((7, 8), (7, 1), (8, 10))) is None


def test_multiples_and_neighbours_are_expressions() -> None:
    form = generalize([met((64, 20), (128, 21)), met((29, 24), (58, 25))])
    assert shown(form) == ["s1", "s0", "2*s1", "s0+1"]
    assert form is not None and form.dims(met((3, 30), (6, 31))) == [30, 3]
    assert form.dims(met((3, 30), (6, 32))) is None


def test_a_multiple_of_a_neighbour_is_an_expression() -> None:
    form = generalize([met((8, 9), (27, 4)), met((13, 14), (42, 4))])
    assert shown(form) == ["s0", "s0+1", "3*s0+3", "4"]
    assert form is not None and form.dims(met((9, 10), (31, 4))) is None


def test_a_product_of_two_sizes_is_an_expression() -> None:
    form = generalize([met((7, 33), (231, 16)), met((16, 9), (144, 16)), met((3, 4), (12, 16))])
    assert shown(form) == ["s0", "s1", "s0*s1", "16"]


def test_values_hold_symbols() -> None:
    first, second = met((64, 4), (2,), value=[64, 10]), met((29, 4), (2,), value=[29, 10])
    form = generalize([first, second])
    assert form is not None
    values = form.values([None, np.array([29, 10], np.int32)])
    assert values[1] is not None and list(map(str, values[1])) == ["s0", "10"]


def test_later_signatures_tell_symbols_apart() -> None:
    seen = [met((8, 8)), met((9, 9))]
    assert shown(generalize(seen)) == ["s0", "s0"]
    assert shown(generalize([*seen, met((9, 10))])) == ["s0", "s1"]


@pytest.mark.parametrize("other", [0, -1])
def test_zero_and_negative_numbers_are_no_symbols(other: int) -> None:
    assert generalize([met((4,), (1,), value=[5]), met((4,), (1,), value=[other])]) is None


def test_a_size_of_zero_is_of_no_range() -> None:
    form = generalize([met((64, 8), (64,)), met((29, 8), (29,))])
    assert form is not None and form.dims(met((1, 8), (1,))) == [1] and form.dims(met((0, 8), (0,))) is None


def test_equal_signatures_have_no_symbols() -> None:
    assert generalize([met((4, 5)), met((4, 5))]) is None


def test_what_a_stride_leaves_is_the_second_guess() -> None:
    """A convolution and a pooling, both with strides of 2: the lengths after them follow from the one before."""
    signatures = [met((4, n, 8), (4, (n + 1) // 2, 6), (4, (n + 1) // 4, 6)) for n in (9, 14)]
    first, *others = guesses(signatures)
    assert len(first.homes) == 3
    assert ["4", "s0", "8", "4", "((s0+1)//2)", "6", "4", "((s0+1)//4)", "6"] in [shown(f) for f in others]
    (same,) = (f for f in others if "((s0+1)//4)" in shown(f))
    assert same.dims(met((4, 23, 8), (4, 12, 6), (4, 6, 6))) == [23]
    assert same.dims(met((4, 23, 8), (4, 12, 6), (4, 5, 6))) is None


def test_signatures_are_compared_with_those_of_the_same_variables() -> None:
    """A layer of 8 units and one of 9 are two models."""
    now, batch, model = met((7, 20), (20, 9)), met((64, 20), (20, 9)), met((7, 20), (20, 8))
    assert kin(now, [batch, model], [1]) == [batch]
    assert kin(now, [batch, model], []) == [batch, model]


def test_signatures_are_compared_with_those_of_the_same_zeros() -> None:
    seen = [met((4,), (1,), value=[5]), met((5,), (1,), value=[0]), met((6,), (1,), value=[3])]
    assert kin(met((7,), (1,), value=[2]), seen) == [seen[0], seen[2]]
    assert kin(met((7,), (1,), value=[0]), seen) == [seen[1]]


# -- products -----------------------------------------------------------------------------------------------

SIZES = [[n] for n in (1, 2, 5, 13, 14, 15, 29, 64, 100)]


def product(b: Builder, x: Node, w: Node, *labels: tuple[int, ...]) -> Node:
    return b.contract(x, w, Contraction(*labels))


@pytest.mark.parametrize("dtype", [F, BF], ids=str)
@pytest.mark.parametrize("width", [1, 10, 33, 256])
def test_a_dense_layer_and_its_gradients(width: int, dtype: DType) -> None:
    b = Builder()
    x, w, dy = b.input((S, 48), dtype), b.input((48, width), dtype), b.input((S, width), dtype)
    bias = b.input((width,), dtype)
    y = product(b, x, w, (0, 1), (1, 2), (0, 2))
    y = b.map("max", b.binary("add", y, bias), b.const(0, dtype, y.shape))
    dx = product(b, dy, w, (0, 2), (1, 2), (0, 1))
    dw = product(b, x, dy, (0, 1), (0, 2), (1, 2))
    tolerance = 1e-4 if dtype is F else 5e-2
    check_range(Program(b.inputs, [y, dx, dw]), SIZES, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", [F, BF], ids=str)
@pytest.mark.parametrize("size", [5, 8, 19])
def test_a_convolution_and_its_gradients(size: int, dtype: DType) -> None:
    b = Builder()
    x, w, dy = b.input((S, size, size, 8), dtype), b.input((3, 3, 8, 24), dtype), b.input((S, size, size, 24), dtype)

    def windows(x: Node) -> Node:
        return b.window(b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0]), [1, 2], [3, 3], [1, 1])

    y = product(b, windows(x), w, (0, 1, 2, 3, 4, 5), (4, 5, 3, 6), (0, 1, 2, 6))
    dw = product(b, windows(x), dy, (0, 1, 2, 3, 4, 5), (0, 1, 2, 6), (4, 5, 3, 6))
    dx = product(b, windows(dy), b.reverse(w, [0, 1]), (0, 1, 2, 3, 4, 5), (4, 5, 6, 3), (0, 1, 2, 6))
    tolerance = 2e-4 if dtype is F else 5e-2
    check_range(Program(b.inputs, [y, dw, dx]), SIZES, rtol=tolerance, atol=tolerance * 20)


def test_a_product_by_pixels_whose_axes_merge() -> None:
    b = Builder()
    x, w, dy = b.input((S, 7, 7, 40), F), b.input((40, 72), F), b.input((S, 7, 7, 72), F)
    y = product(b, x, w, (0, 1, 2, 3), (3, 4), (0, 1, 2, 4))
    dw = product(b, x, dy, (0, 1, 2, 3), (0, 1, 2, 4), (3, 4))
    check_range(Program(b.inputs, [y, dw]), SIZES, rtol=1e-4, atol=2e-3)


def test_a_product_per_example() -> None:
    b = Builder()
    q, k, v = (b.input((S, 4, 12, 16), F) for _ in range(3))
    scores = product(b, q, k, (0, 1, 2, 3), (0, 1, 4, 3), (0, 1, 2, 4))
    mixed = product(b, scores, v, (0, 1, 2, 4), (0, 1, 4, 3), (0, 1, 2, 3))
    check_range(Program(b.inputs, [scores, mixed]), SIZES, rtol=1e-4, atol=1e-3)


def test_a_deep_sum_is_cut_into_as_many_chunks_as_it_needs() -> None:
    b = Builder()
    x, dy = b.input((S, 32, 32, 3), F), b.input((S, 32, 32, 16), F)
    dw = product(b, x, dy, (0, 1, 2, 3), (0, 1, 2, 4), (3, 4))
    check_range(Program(b.inputs, [dw]), [[1], [3], [64], [200]], rtol=1e-3, atol=1e-2)


def test_a_last_axis_known_at_run_time_only_is_refused() -> None:
    b = Builder()
    x, w = b.input((20, 16), F), b.input((16, S), F)
    with pytest.raises(Unfit, match="run time"):
        check_range(Program(b.inputs, [product(b, x, w, (0, 1), (1, 2), (0, 2))]), [[5]])


def test_a_convolution_of_images_of_any_size_reads_a_copy_of_its_windows() -> None:
    b = Builder()
    x, w, dy = b.input((4, S, T, 8), F), b.input((3, 3, 8, 24), F), b.input((4, S, T, 24), F)
    windows = b.window(b.pad(x, [0, 1, 1, 0], [0, 1, 1, 0]), [1, 2], [3, 3], [1, 1])
    y = product(b, windows, w, (0, 1, 2, 3, 4, 5), (4, 5, 3, 6), (0, 1, 2, 6))
    dw = product(b, windows, dy, (0, 1, 2, 3, 4, 5), (0, 1, 2, 6), (4, 5, 3, 6))
    check_range(Program(b.inputs, [y, dw]), [[1, 1], [5, 7], [16, 9]], rtol=1e-4, atol=1e-3)


# -- everything else ----------------------------------------------------------------------------------------


def test_reductions_and_their_count() -> None:
    b = Builder()
    x = b.input((S, 26, 26, 8), F)
    mean = b.binary("div", b.reduce("sum", x, [0, 1, 2]), b.extent(ext.mul(S, 676), F))
    away = b.binary("sub", x, mean)
    rows = b.reduce("max", b.reshape(away, (ext.mul(S, 676), 8)), [1])
    check_range(Program(b.inputs, [mean, away, rows, b.reduce("sum", away, [0])]), SIZES, atol=1e-3)


def test_reshapes_split_and_join_a_symbolic_axis() -> None:
    b = Builder()
    x = b.input((S, 10, 16), F)
    flat = b.map("neg", b.reshape(x, (ext.mul(S, 10), 16)))
    again = b.reduce("sum", b.reshape(b.map("exp", flat), (S, 160)), [1])
    turned = b.map("abs", b.reshape(b.permute(flat, (1, 0)), (4, 4, S, 10)))
    check_range(Program(b.inputs, [flat, again, turned]), SIZES)


def test_a_reshape_across_symbols_reads_memory_in_order() -> None:
    b = Builder()
    x = b.input((2, S, 7, 4), F)
    joined = b.reshape(b.map("exp", b.permute(x, (1, 0, 2, 3))), (ext.mul(S, 2), 7, 4))
    back = b.reshape(b.map("neg", joined), (2, S, 7, 4))
    check_range(Program(b.inputs, [joined, b.reduce("sum", back, [0]), b.map("abs", back)]), SIZES)


def test_two_symbols() -> None:
    b = Builder()
    x, table = b.input((S, T, 8), F), b.input((8, 40), F)
    flat = b.reshape(x, (ext.mul(S, T), 8))
    y = b.reshape(product(b, flat, table, (0, 1), (1, 2), (0, 2)), (S, T, 40))
    pooled = b.binary("div", b.reduce("sum", y, [1]), b.extent(T, F))
    check_range(Program(b.inputs, [pooled, b.reduce("sum", x, [0])]), [[1, 1], [7, 3], [32, 50]], rtol=1e-4, atol=1e-4)


def test_sizes_as_values() -> None:
    b = Builder()
    b.input((S, T), F)
    shape = b.concat([b.reshape(b.extent(e, DType.I32), (1,)) for e in (S, T, ext.mul(S, T))], 0)
    check_range(Program(b.inputs, [shape, b.iota((S, 3), 0, DType.I32)]), [[1, 2], [30, 4]])


@pytest.mark.parametrize("dtype", [F, BF], ids=str)
def test_a_dense_layer_on_sequences_of_any_length(dtype: DType) -> None:
    """The axes before the last are walked as one: 4 * s0 rows, whose strides are numbers."""
    b = Builder()
    x, w, dy = b.input((4, S, 16), dtype), b.input((16, 24), dtype), b.input((4, S, 24), dtype)
    bias, places = b.input((24,), dtype), b.input((S, 24), dtype)
    y = b.binary("add", product(b, x, w, (0, 1, 2), (2, 3), (0, 1, 3)), bias)
    placed = b.binary("add", product(b, x, w, (0, 1, 2), (2, 3), (0, 1, 3)), places)  # not of those rows
    dx = product(b, dy, w, (0, 1, 3), (2, 3), (0, 1, 2))
    dw = product(b, x, dy, (0, 1, 2), (0, 1, 3), (2, 3))
    tolerance = 1e-4 if dtype is F else 5e-2
    check_range(Program(b.inputs, [y, placed, dx, dw]), SIZES, rtol=tolerance, atol=tolerance * 10)


def test_batch_and_length_may_both_be_unknown() -> None:
    b = Builder()
    x, w = b.input((S, T, 16), F), b.input((16, 24), F)
    y = product(b, x, w, (0, 1, 2), (2, 3), (0, 1, 3))
    check_range(Program(b.inputs, [y]), [[1, 1], [3, 17], [17, 3]], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [F, BF], ids=str)
def test_attention_over_sequences_of_any_length(dtype: DType) -> None:
    """Queries of one length on keys of another, with the gradients of both products."""
    b = Builder()
    q, dy = (b.input((2, S, 4, 16), dtype) for _ in range(2))
    k, v = (b.input((2, T, 4, 16), dtype) for _ in range(2))
    batch, long, head, depth, other = range(5)
    rows, columns, square = (batch, long, head, depth), (batch, other, head, depth), (batch, head, long, other)
    scores = product(b, q, k, rows, columns, square)
    y = product(b, scores, v, square, columns, rows)
    dscores = product(b, dy, v, rows, columns, square)
    dv = product(b, scores, dy, square, rows, columns)
    dq = product(b, dscores, k, square, columns, rows)
    dk = product(b, dscores, q, square, rows, columns)
    sizes = [[1, 1], [3, 17], [16, 16], [33, 5]]
    tolerance = 1e-4 if dtype is F else 6e-2
    check_range(Program(b.inputs, [scores, y, dv, dq, dk]), sizes, rtol=tolerance, atol=tolerance * 20)


def test_a_product_summed_over_two_lengths() -> None:
    b = Builder()
    x, dy = b.input((S, 6, T, 8), F), b.input((S, 6, T, 4), F)
    dw = product(b, x, dy, (0, 1, 2, 3), (0, 1, 2, 4), (3, 4))  # one length: these axes are walked as one
    turned = b.permute(b.input((T, 6, S, 8), F), (2, 1, 0, 3))  # this operand is copied first
    dw2 = product(b, turned, dy, (0, 1, 2, 3), (0, 1, 2, 4), (3, 4))
    check_range(Program(b.inputs, [dw, dw2]), [[1, 1], [5, 7], [16, 9]], rtol=1e-4, atol=1e-3)


# -- where and how much by sizes ------------------------------------------------------------------------------


def test_begins_and_paddings_of_symbolic_size() -> None:
    b = Builder()
    x = b.input((3, S, 4), F)
    half = ext.div(S, 2)
    cut = b.slice(x, (0, half, 0), (3, ext.add(S, ext.mul(half, -1)), 4))
    padded = b.pad(b.map("neg", x), (0, ext.mod(S, 3), 0), (0, half, 1), 2.0)
    turned = b.map("abs", b.reverse(x, [1]))
    every = b.map("exp", b.slice(x, (0, ext.add(S, -1), 0), (3, ext.div(ext.add(S, 1), 2), 4), (1, -2, 1)))
    check_range(Program(b.inputs, [b.map("abs", cut), padded, turned, every]), SIZES)


def test_a_difference_of_sizes_divides_downwards() -> None:
    """Generated divisions are unsigned, but for those of sizes that may be less than nothing."""
    b = Builder()
    b.input((S, T), F)
    e = ext.div(ext.add(S, ext.mul(T, -1)), 4)
    line = b.concat([b.reshape(b.extent(n, DType.I32), (1,)) for n in (e, ext.mod(ext.add(S, ext.mul(T, -1)), 4))], 0)
    check_range(Program(b.inputs, [line]), [[3, 12], [12, 3], [5, 5], [1, 2]])


@pytest.mark.parametrize("descending", [False, True])
def test_a_sort_along_a_symbolic_axis(descending: bool) -> None:
    b = Builder()
    x = b.input((3, S), F)
    y = b.input((S, 5), BF)
    check_range(Program(b.inputs, [b.sort(x, 1, descending), b.sort(y, 0, descending)]), SIZES)
