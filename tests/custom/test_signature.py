"""What an op takes and gives is read, refused with a sentence, and written as TensorFlow reads it."""

from __future__ import annotations

from typing import Any

import pytest

from habana_tf.custom import ALL, FLOATS, CustomOpError
from habana_tf.custom.signature import read
from habana_tf.ir.dtypes import DType


def test_types_attributes_and_numbers_of_tensors() -> None:
    made = read(
        "Mix",
        "x: T, parts: N * T, k: int32",
        "y: T",
        {"beta": 1.5, "axis": int, "mode": "a", "on": True},
        {"T": FLOATS},
    )
    assert made.texts() == (
        ["x: T", "parts: N * T", "k: int32"],
        ["y: T"],
        [
            "T: {float, bfloat16}",
            "beta: float = 1.5",
            "axis: int",
            'mode: string = "a"',
            "on: bool = true",
            "N: int >= 1",
        ],
    )
    assert made.types == {"T": FLOATS}


def test_attributes_as_text() -> None:
    made = read(
        "Mix", "x: T", "y: T", "T: {float, bfloat16} = DT_FLOAT, beta: float = -1e-3, sizes: list(int) = [1, 2]"
    )
    assert made.texts()[2] == ["T: {float, bfloat16} = DT_FLOAT", "beta: float = -0.001", "sizes: list(int) = [1, 2]"]
    assert made.attrs[2].default == [1, 2] and made.attrs[0].default is DType.F32


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("begins with a capital", {"op": "mix"}),
    ("begins with a capital", {"op": "Mix>It"}),
    ("'name: type'", {"inputs": "x"}),
    ("'name: type'", {"inputs": "X: T"}),
    ("'name: type'", {"inputs": "name: T"}),
    ("'name: type'", {"inputs": "lambda: T"}),
    ("neither a type attribute", {"inputs": "x: string"}),
    ("neither a type attribute", {"inputs": "x: U"}),
    ("not an element type of HPU", {"attrs": "U: {double}", "inputs": "x: U"}),
    ("not an element type of HPU", {"types": {"T": (DType.F64,)}}),
    ("allows no element type", {"types": {"T": ()}}),
    ("is the type of no argument", {"types": {"T": ALL, "U": ALL}}),
    ("several arguments or attributes", {"outputs": "x: T"}),
    ("without outputs", {"outputs": ""}),
    ("that of no input", {"outputs": "y: N * T"}),
    ("is there twice", {"attrs": "a: int, a: int"}),
    ("of no kind 'tensor'", {"attrs": "a: tensor"}),
    ("not a default for attribute 'a'", {"attrs": "a: int = b"}),
    ("not a default for attribute 'a'", {"attrs": "a: float = nan"}),
    ("not a default for attribute 'a'", {"attrs": "a: string = b"}),
    ("must be written as 'name: kind'", {"attrs": "a"}),
    ("not a name for an attribute", {"attrs": "_a: int"}),
    ("of no kind dict", {"attrs": {"a": dict}}),
    ("not a default for attribute 'a'", {"attrs": {"a": None}}),
    ("characters", {"attrs": {"a": 'say "no"'}}),
    ("not a default for attribute 'a'", {"attrs": {"a": 1 << 63}}),
    ("not a default for attribute 'a'", {"attrs": {"a": [1, -(1 << 63) - 1]}}),
    ("not a default for attribute 'a'", {"attrs": "a: list(int) = [99999999999999999999]"}),
    ("not a default for attribute 'a'", {"attrs": {"a": float("inf")}}),
    ("not a default for attribute 'a'", {"attrs": {"a": [1.0, float("nan")]}}),
    ("not a default for attribute 'a'", {"attrs": {"a": 1e39}}),
    ("is an element type, and not a name", {"attrs": "float: int"}),
    ("is an element type, and not a name", {"attrs": {"int32_ref": 1}}),
    ("is an element type, and not a name", {"inputs": "x: half * T"}),
    ("not a name for an attribute", {"attrs": {"len": 1}}),
    ("'name: type'", {"inputs": "tld: T"}),
    ("list of element types, as in T=FLOATS", {"types": {"T": DType.F32}}),
    ("list of element types, as in T=FLOATS", {"types": {"T": "float"}}),
    ("so it cannot be an attribute", {"inputs": "x: k * T", "attrs": {"k": 1}}),
    ("attribute of another kind", {"inputs": "x: k", "attrs": {"k": 1}}),
]


@pytest.mark.parametrize(("says", "what"), WRONG)
def test_what_tensorflow_would_end_the_process_over_is_refused(says: str, what: dict[str, Any]) -> None:
    given = {"op": "Mix", "inputs": "x: T", "outputs": "y: T", "attrs": "", "types": {"T": FLOATS}, **what}
    with pytest.raises(CustomOpError, match=says):
        read(**given)
