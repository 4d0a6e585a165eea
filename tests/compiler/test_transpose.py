"""Squares of vectors turned over, their shuffles executed by NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.transpose import transpose


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "bfloat", "float", "double"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_transposed(lanes: int, element: str) -> None:
    fn = Function("square")
    square = np.arange(lanes * lanes).reshape(lanes, lanes)
    values = {f"%in{k}": line for k, line in enumerate(square)}
    made = transpose(fn, element, list(values))
    for line in fn.lines:
        _execute(line, values)
    np.testing.assert_array_equal([values[x] for x in made], square.T)


@pytest.mark.parametrize(("lanes", "rounds"), [(4, 2), (8, 3), (16, 4)])
def test_rounds_and_the_fence_between_them(lanes: int, rounds: int) -> None:
    """A shuffle a vector and round; one fence each, or LLVM looks through all rounds at once."""
    fn = Function("square")
    transpose(fn, "float", [f"%in{k}" for k in range(lanes)])
    assert sum("shufflevector" in line for line in fn.lines) == lanes * rounds
    assert sum("arithmetic.fence" in line for line in fn.lines) == lanes


def test_zeros_are_not_shuffled() -> None:
    """Ten lines of a square of sixteen: of their zeros, a quarter of the first half of rounds has nothing to do."""
    fn = Function("square")
    values = {f"%in{k}": np.full(16, k) for k in range(10)}
    made = transpose(fn, "float", [*values, *["zeroinitializer"] * 6])
    assert not any(line.count("zeroinitializer") > 1 for line in fn.lines)
    values["zeroinitializer"] = np.zeros(16, int)
    for line in fn.lines:
        _execute(line, values)
    np.testing.assert_array_equal([values[x] for x in made], [[*range(10), *[0] * 6]] * 16)


def _execute(line: str, values: dict[Value, np.ndarray[Any, Any]]) -> None:
    result, equals, text = line.strip().partition(" = ")
    if not equals:
        return
    names = re.findall(r"%\w+|zeroinitializer", text)
    if text.startswith("shufflevector"):
        places = [int(k) for k in re.findall(r"i32 (\d+)", text)]
        values[result] = np.concatenate([values[x] for x in names])[places]
    else:  # a cast, or a fence
        values[result] = values[names[0]]
