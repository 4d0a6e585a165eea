"""Rounding errors of long sums against float64: they grow with the logarithm of the length, for every kind of sum.

The worst numbers are all equal: whatever is added one after the other rounds each of them off in the same direction.
`tests/benchmarks/sum_errors.py` shows errors beside those of stock TensorFlow.
"""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.ir import interpreter
from habana_tf.ir.dtypes import DType
from tests.compiler.sum_cases import NUMBERS, Sum, beside, lost, made, product, reduced, run, scanned, scattered, square
from tests.effort import quickly, some

SUMS: dict[str, Sum] = {
    "all": reduced(1_000_003, axes=(0,)),
    "rows": reduced(3, 250_007, axes=(1,)),
    "two axes in rows": reduced(2, 311, 3, 1009, axes=(1, 3)),
    "few columns": reduced(200_003, 3, axes=(0,)),
    "wide columns": reduced(5003, 1030, axes=(0,)),
    "a middle axis": reduced(5, 50_003, 6, axes=(1,)),
    "running": scanned(1_000_003, axis=0),
    "running back, of columns": scanned(100_003, 3, axis=0, reverse=True),
    "product of vectors": square(1, 1_000_003),
    "product along rows": square(8, 50_021),
    "product of few columns": product(100_003, 4),
    "product of many columns": product(30_011, 48),
    "product, packed": product(5003, 150),
    "columns of a product": beside(200_000, 4),
    "to few places": scattered(200_003),
    "rows to few places": scattered(50_021, 24),
}
LONG: dict[str, Sum] = {
    "all": reduced(10_000_000, axes=(0,)),
    "rows": reduced(10, 1_000_000, axes=(1,)),
    "few columns": reduced(2_000_003, 5, axes=(0,)),
    "wide columns": reduced(20_011, 1030, axes=(0,)),
    "a middle axis": reduced(5, 300_007, 6, axes=(1,)),
    "running": scanned(10_000_000, axis=0),
    "product of vectors": square(1, 10_000_000),
    "product of few columns": product(2_000_003, 5),
    "product of many columns": product(200_003, 48),
    "product, packed": product(30_011, 300),
    "columns of a product": beside(2_000_000, 4),
    "to few places": scattered(1_000_003),
}
SYMBOLIC = [name for name in SUMS if name not in ("two axes in rows", "product along rows")]
"""Those that have code for a size that is not known."""


@pytest.mark.part
@pytest.mark.parametrize("name", list(SUMS))
def test_errors_of_compiled_sums_grow_with_the_logarithm_of_their_length(name: str) -> None:
    kind = SUMS[name]
    for numbers in some(list(NUMBERS), 3):
        x = NUMBERS[numbers](kind.shape)
        assert lost(kind, x, run(kind, x)) < kind.bound, numbers


@pytest.mark.rest
@pytest.mark.parametrize("name", list(LONG))
def test_errors_of_sums_of_ten_million_numbers(name: str) -> None:
    kind = LONG[name]
    for numbers, make in NUMBERS.items():
        x = make(kind.shape)
        assert lost(kind, x, run(kind, x)) < kind.bound, numbers


@pytest.mark.parametrize("name", quickly(SYMBOLIC, 2))
def test_errors_where_the_length_is_known_at_run_time_only(name: str) -> None:
    kind = SUMS[name]
    x = NUMBERS["equal"](kind.shape)
    assert lost(kind, x, run(kind, x, symbolic=True)) < kind.bound


@pytest.mark.parametrize("name", quickly(list(SUMS), 3))
def test_errors_of_interpreted_sums_are_as_small(name: str) -> None:
    kind = SUMS[name]
    x = NUMBERS["equal"](kind.shape)
    (got,) = interpreter.run(made(kind), [x])
    assert lost(kind, x, got) < kind.bound


@pytest.mark.parametrize("name", quickly(["all", "few columns", "wide columns", "running"], 3))
def test_sums_of_bf16_are_rounded_once(name: str) -> None:
    """To a unit of bf16's last place, beside which what float32 loses does not count."""
    kind = SUMS[name]
    x = NUMBERS["equal"](kind.shape).astype(DType.BF16.numpy)
    assert lost(kind, x, run(kind, x)) < 2**16 + kind.bound


def test_errors_of_running_products_grow_with_their_length() -> None:
    """By a rounding for each factor, in whatever order."""
    rng = np.random.default_rng(0)
    kind = SUMS["running"]._replace(
        shape=(4099,), program=lambda b, x: b.scan("prod", x, 0), exact=lambda x: np.cumprod(x, 0), free=0
    )
    x = rng.uniform(0.99, 1.01, kind.shape).astype(np.float32)
    for symbolic in (False, True):
        assert lost(kind, x, run(kind, x, symbolic)) < len(x)


@pytest.mark.parametrize("name", quickly(list(SUMS), 3))
def test_sums_have_the_same_bits_with_one_thread_and_with_several(name: str) -> None:
    kind = SUMS[name]
    x, threads = NUMBERS["uniform"](kind.shape), _bridge.get_threads()
    results = []
    try:
        for count in (1, 2, 5):
            _bridge.set_threads(count)
            results.append(run(kind, x).tobytes())
    finally:
        _bridge.set_threads(threads)
    assert len(set(results)) == 1
