"""What of a transformer is one kernel on a card, and how many bytes that moves."""

from __future__ import annotations

from habana_tf.card.model.kernels import Unit, cut
from habana_tf.card.model.vector_time import instructions
from habana_tf.hardware.chips import chip
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program

ROWS, WIDTH = 64, 512
BYTES = ROWS * WIDTH * 2


def units(b: Builder, ops: list[Node], outputs: list[Node]) -> list[Unit]:
    """ops: what ops of the cluster give."""
    return cut(Program(b.inputs, outputs), {*b.inputs, *ops})


def test_a_product_writes_its_result_in_the_type_of_a_cast() -> None:
    b = Builder()
    x, w = b.input((ROWS, WIDTH), DType.BF16), b.input((WIDTH, WIDTH), DType.BF16)
    y = b.contract(b.cast(x, DType.F32), w, Contraction((0, 1), (1, 2), (0, 2)))
    z = b.cast(b.permute(b.reshape(y, (ROWS, 8, 64)), (1, 0, 2)), DType.BF16)
    (product,) = (u for u in units(b, [y, z], [z]) if u.product)
    assert product.results == [y, z] and product.stores == {z: BYTES}


def test_a_cast_to_a_wider_type_belongs_to_the_kernel_that_reads_it() -> None:
    b = Builder()
    x, w = b.input((ROWS, WIDTH), DType.BF16), b.input((WIDTH, WIDTH), DType.BF16)
    y = b.contract(x, w, Contraction((0, 1), (1, 2), (0, 2)))
    wide = b.cast(y, DType.F32)
    z = b.binary("add", wide, b.const(1.0, DType.F32))
    product, kernel = units(b, [y, wide, z], [z])
    assert product.stores == {y: BYTES} and kernel.stores == {z: 2 * BYTES}


def test_a_norm_of_rows_is_one_kernel() -> None:
    """Squares, their mean, 1 / sqrt of it for each row, and the row times that."""
    b = Builder()
    x, scale = b.input((ROWS, WIDTH), DType.F32), b.input((1, WIDTH), DType.F32)
    squares = b.binary("mul", x, x)
    total = b.reduce("sum", squares, (1,))
    mean = b.binary("mul", total, b.const(1 / WIDTH, DType.F32))
    root = b.map("rsqrt", mean)
    y = b.binary("mul", x, b.expand(b.reshape(root, (ROWS, 1)), (ROWS, WIDTH)))
    z = b.binary("mul", y, b.expand(scale, (ROWS, WIDTH)))
    (kernel,) = units(b, [squares, total, mean, root, y, z], [z])
    assert kernel.loads == {x: ROWS * WIDTH * 4, scale: WIDTH * 4} and kernel.stores == {z: ROWS * WIDTH * 4}


def test_what_is_made_of_sums_over_columns_is_not() -> None:
    b = Builder()
    x = b.input((ROWS, WIDTH), DType.F32)
    total = b.reduce("sum", x, (0,))
    root = b.map("rsqrt", total)
    y = b.binary("mul", x, b.expand(b.reshape(root, (1, WIDTH)), (ROWS, WIDTH)))
    assert len(units(b, [total, root, y], [y])) == 3


def test_a_rotary_embedding_is_one_kernel() -> None:
    b = Builder()
    x, cos, sin = (b.input((ROWS, WIDTH), DType.F32) for _ in range(3))
    half = WIDTH // 2
    negated = b.map("neg", b.slice(x, (0, half), (ROWS, half)))
    turned = b.concat([negated, b.slice(x, (0, 0), (ROWS, half))], 1)
    first, second = b.binary("mul", x, cos), b.binary("mul", turned, sin)
    z = b.binary("add", first, second)
    (kernel,) = units(b, [negated, turned, first, second, z], [z])
    assert set(kernel.loads) == {x, cos, sin} and kernel.stores == {z: ROWS * WIDTH * 4}


def test_a_map_that_two_kernels_read_is_computed_once() -> None:
    """One of them has readers in two units, inside an op: what is before it stays a tensor."""
    b = Builder()
    x, w = b.input((ROWS, ROWS), DType.F32), b.input((ROWS, ROWS), DType.F32)
    y = b.map("exp", x)
    inner = b.map("neg", y)
    left = b.contract(inner, w, Contraction((0, 1), (1, 2), (0, 2)))
    right = b.reduce("sum", inner, (0,))
    found = units(b, [y, left, right], [left, right])
    assert sum(y in u.inside for u in found) == 1


def test_a_row_written_into_a_cache_moves_a_row() -> None:
    b = Builder()
    cache, row, at = b.input((ROWS, WIDTH), DType.BF16), b.input((1, WIDTH), DType.BF16), b.input((1,), DType.I32)
    put = b.scatter(b.cast(cache, DType.F32), b.cast(row, DType.F32), [at], [0], "set")
    new = b.cast(put, DType.BF16)
    (kernel,) = units(b, [new], [new])
    assert kernel.loads == {row: WIDTH * 2} and kernel.stores == {new: WIDTH * 2}
    assert kernel.elements == WIDTH and instructions(chip("gaudi2"), kernel) == WIDTH * 2 / 256


def test_a_cache_that_something_else_reads_is_copied() -> None:
    b = Builder()
    cache, row, at = b.input((ROWS, WIDTH), DType.F32), b.input((1, WIDTH), DType.F32), b.input((1,), DType.I32)
    put = b.scatter(cache, row, [at], [0], "set")
    old = b.map("neg", cache)
    found = next(u for u in units(b, [put, old], [put, old]) if put in u.results)
    assert found.loads[cache] == found.stores[put] == ROWS * WIDTH * 4
