"""Rounding errors of long sums against float64: they grow with the logarithm of the length, for every kind of sum.

The worst numbers are all equal: whatever is added one after the other rounds each of them off in the same direction.
`tests/benchmarks/sum_errors.py` shows errors beside those of stock TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program
from tests.effort import quickly, some

from .running import compiled

UNIT = 2.0**-24
BLOCKS = 6
"""Units of the last place that may be lost for each doubling of the length: a block of 256 equal terms loses 40."""
PRODUCTS = 24
"""The same of products, whose blocks of 1024 terms lose 225."""


class Sum(NamedTuple):
    """shape: of the operand; program: its result; exact: the same in NumPy, also for the size of errors; lost: units of
    the last place that may be, for each doubling of the length."""

    shape: tuple[int, ...]
    program: Callable[[Builder, Node], Node]
    exact: Callable[[Any], Any]
    length: int
    lost: int = BLOCKS


def _reduced(*shape: int, axes: tuple[int, ...]) -> Sum:
    length = math.prod(shape[k] for k in axes)
    return Sum(shape, lambda b, x: b.reduce("sum", x, axes), lambda x: x.sum(axes), length)


def _scanned(*shape: int, axis: int, reverse: bool = False) -> Sum:
    def exact(x: Any) -> Any:
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)

    return Sum(shape, lambda b, x: b.scan("sum", x, axis, reverse=reverse), exact, shape[axis])


def _product(*shape: int) -> Sum:
    spec = Contraction(a=(0, 1), b=(0, 2), out=(1, 2))
    return Sum(shape, lambda b, x: b.contract(x, x, spec), lambda x: x.T @ x, shape[0], PRODUCTS)


def _square(*shape: int) -> Sum:
    spec = Contraction(a=(0, 1), b=(2, 1), out=(0, 2))
    return Sum(shape, lambda b, x: b.contract(x, x, spec), lambda x: x @ x.T, shape[1], PRODUCTS)


def _beside(*shape: int) -> Sum:
    """The columns of a product, which are added up in its kernel."""

    def program(b: Builder, x: Node) -> Node:
        eye = b.const(1.0, DType.F32, (shape[1], 32))
        return b.reduce("sum", b.contract(x, eye, Contraction(a=(0, 1), b=(1, 2), out=(0, 2))), (0,))

    return Sum(shape, program, lambda x: np.broadcast_to(x.sum((0, 1)), (32,)), shape[0])


SUMS = {
    "all": _reduced(10_000_000, axes=(0,)),
    "all, of no even length": _reduced(1_000_003, axes=(0,)),
    "rows": _reduced(3, 250_007, axes=(1,)),
    "two axes in rows": _reduced(2, 311, 3, 1009, axes=(1, 3)),
    "few columns": _reduced(1_000_003, 3, axes=(0,)),
    "wide columns": _reduced(5003, 1030, axes=(0,)),
    "a middle axis": _reduced(5, 100_003, 6, axes=(1,)),
    "running": _scanned(1_000_003, axis=0),
    "running back, of columns": _scanned(100_003, 3, axis=0, reverse=True),
    "product of vectors": _square(1, 1_000_003),
    "product along rows": _square(8, 50_021),
    "product of few columns": _product(100_003, 4),
    "product of many columns": _product(30_011, 48),
    "product, packed": _product(5003, 300),
    "columns of a product": _beside(200_000, 4),
}
NUMBERS = {
    "equal": lambda shape: np.full(shape, 0.1, np.float32),
    "uniform": lambda shape: np.random.default_rng(1).random(shape, np.float32),
    "normal": lambda shape: np.random.default_rng(2).standard_normal(shape, np.float32),
}


def _made(kind: Sum, dtype: DType = DType.F32) -> Program:
    b = Builder()
    x = b.input(kind.shape, dtype)
    return Program(b.inputs, [kind.program(b, x)])


def _lost(kind: Sum, x: Any, got: Any) -> float:
    """Units of the last place, of the sum of the terms' absolute values, that the result is off."""
    wide = x.astype(np.float64)
    return float((np.abs(got - kind.exact(wide)) / kind.exact(np.abs(wide))).max() / UNIT)


@pytest.mark.part
@pytest.mark.parametrize("name", list(SUMS))
def test_errors_of_compiled_sums_grow_with_the_logarithm_of_their_length(name: str) -> None:
    kind = SUMS[name]
    for numbers in some(list(NUMBERS), 2):
        x = NUMBERS[numbers](kind.shape)
        (got,), _ = compiled(_made(kind), [x])
        assert _lost(kind, x, got) < kind.lost * math.log2(kind.length), numbers


@pytest.mark.parametrize("name", quickly(list(SUMS), 3))
def test_errors_of_interpreted_sums_are_as_small(name: str) -> None:
    kind = SUMS[name]
    x = NUMBERS["equal"](kind.shape)
    (got,) = interpreter.run(_made(kind), [x])
    assert _lost(kind, x, got) < kind.lost * math.log2(kind.length)


@pytest.mark.parametrize("name", quickly(list(SUMS), 3))
def test_sums_have_the_same_bits_with_one_thread_and_with_several(name: str) -> None:
    kind = SUMS[name]
    x, threads = NUMBERS["uniform"](kind.shape), _bridge.get_threads()
    results = []
    try:
        for count in (1, 2, 5):
            _bridge.set_threads(count)
            (got,), _ = compiled(_made(kind), [x])
            results.append(got.tobytes())
    finally:
        _bridge.set_threads(threads)
    assert len(set(results)) == 1
