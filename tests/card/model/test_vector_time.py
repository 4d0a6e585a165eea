"""Vector instructions of kernels, counted by hand: vectors of 256 bytes are 64 fp32 or 128 bf16."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from habana_tf.card.model.kernels import Unit, cut
from habana_tf.card.model.vector_time import instructions, operations, vector_seconds
from habana_tf.hardware.chips import chip
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from tests.card.model.programs import cluster

ROWS, WIDTH = 1024, 512
VECTORS = ROWS * WIDTH // 64
"""Of fp32."""


def kernel(make: Callable[[Builder, Node, Node], Node], dtype: DType = DType.F32) -> Unit:
    """The one kernel of what is made of two tensors."""
    b = Builder()
    made = make(b, b.input((ROWS, WIDTH), dtype), b.input((ROWS, WIDTH), dtype))
    (unit,) = cut(cluster(b, [made], [0]).program, {made})
    return unit


@pytest.mark.parametrize(
    "make, each",
    [
        (lambda b, x, y: b.map("add", x, y), 0.5),
        (lambda b, x, y: b.map("max", x, y), 1.0),
        (lambda b, x, y: b.map("div", x, y), 26.0),
        (lambda b, x, y: b.map("exp", x), 29.0),
        (lambda b, x, y: b.map("exp", b.map("mul", b.map("add", x, y), y)), 30.0),
        (lambda b, x, y: b.reduce("sum", b.map("mul", x, y), (1,)), 1.0),  # a sum of products is one
    ],
)
def test_instructions_of_fp32(make: Callable[[Builder, Node, Node], Node], each: float) -> None:
    assert instructions(chip("gaudi2"), kernel(make)) == pytest.approx(each * VECTORS)


def test_bf16_has_twice_as_many_in_a_vector_but_functions_of_a_kernel_that_sums_are_fp32() -> None:
    plain = kernel(lambda b, x, y: b.map("max", x, y), DType.BF16)
    function = kernel(lambda b, x, y: b.map("tanh", x), DType.BF16)
    sums = kernel(lambda b, x, y: b.reduce("sum", b.map("tanh", x), (1,)), DType.BF16)
    assert instructions(chip("gaudi2"), plain) == pytest.approx(VECTORS / 2)
    assert instructions(chip("gaudi2"), function) == pytest.approx(16 * VECTORS / 2)
    assert instructions(chip("gaudi2"), sums) == pytest.approx(16 * VECTORS + 0.5 * VECTORS / 2)


def test_a_division_by_a_number_of_each_row_is_a_multiplication() -> None:
    b = Builder()
    x, row = b.input((ROWS, WIDTH), DType.F32), b.input((ROWS, 1), DType.F32)
    made = b.map("div", x, b.expand(row, (ROWS, WIDTH)))
    (unit,) = cut(cluster(b, [made], [0]).program, {made})
    assert instructions(chip("gaudi2"), unit) == pytest.approx(0.5 * VECTORS)


def test_a_random_number_is_read_from_a_register() -> None:
    """One instruction for 64 words, and one more for what is made of them."""
    b = Builder()
    made = b.map("invert", b.random(b.state(0), 64 * VECTORS))
    (unit,) = cut(cluster(b, [made], [0]).program, {made})
    assert instructions(chip("gaudi2"), unit) == pytest.approx(2 * VECTORS)


@pytest.mark.parametrize(
    "make",
    [
        lambda b, x, y: b.cast(x, DType.BF16),
        lambda b, x, y: b.map("stored", b.cast(x, DType.BF16)),  # what TensorFlow's Cast is lowered to
        lambda b, x, y: b.map("bitcast", x, dtype=DType.I32),
    ],
)
def test_changes_of_type_cost_nothing(make: Callable[[Builder, Node, Node], Node]) -> None:
    unit = kernel(make)
    assert instructions(chip("gaudi2"), unit) == 0.0 and operations(unit) == 0


def test_time_is_that_of_all_processors() -> None:
    unit = kernel(lambda b, x, y: b.map("max", x, y))
    assert vector_seconds(chip("gaudi"), unit) == pytest.approx(VECTORS / (8 * 1.9e9))
    assert vector_seconds(chip("gaudi3"), unit) == pytest.approx(VECTORS / (64 * 1.6e9))


def test_a_kernel_that_writes_into_a_tensor_takes_what_it_writes() -> None:
    unit = kernel(lambda b, x, y: b.map("max", x, y))
    unit.elements //= 8
    unit.in_place = {unit.results[0]: unit.elements}
    assert instructions(chip("gaudi2"), unit) == VECTORS / 8


def test_operations_are_one_per_element_and_function() -> None:
    unit = kernel(lambda b, x, y: b.reduce("sum", b.map("exp", b.map("mul", x, y)), (1,)))
    assert operations(unit) == 3 * ROWS * WIDTH
