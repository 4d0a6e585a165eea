"""Shapes of outputs as text: read, refused, and evaluated over numbers and symbols."""

from __future__ import annotations

import pytest

from habana_tf.custom import FLOATS, CustomOpError, shapes
from habana_tf.custom.signature import read
from habana_tf.ir import extent as ext

TWO = read("Two", "x: T, box: T", "y: T, z: T", {"k": 3, "beta": 1.0}, {"T": FLOATS})
ONE = read("One", "x: T, box: T", "y: T", {"k": 3, "beta": 1.0}, {"T": FLOATS})


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x", (2, 3, 5)), ("x[1:]", (3, 5)), ("x[:-1], 4", (2, 3, 4)), ("x[-1], k, ?", (5, 3, None)), ("", ()),
        ("*", None), ("box[0], x[0]", (7, 2)), ("x[3:]", ()),
    ],
)  # fmt: skip
def test_the_shape_that_a_text_says(text: str, shape: tuple[int | None, ...] | None) -> None:
    assert shapes.evaluate(shapes.read(ONE, text), [(2, 3, 5), (7, 4)], {"k": 3}) == [shape]


def test_two_outputs_and_symbols() -> None:
    s = ext.sym(0)
    assert shapes.evaluate(shapes.read(TWO, "x; box[0], x[-1]"), [(s, 5), (7, 4)], {}) == [(s, 5), (7, 5)]
    assert shapes.evaluate(shapes.read(TWO, None), [(s, 5), (7, 4)], {}) == [None, None]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x; x", "has 2 shapes and the op 1 outputs"), ("w", "neither an input"), ("beta", "neither an input"),
        ("x[a]", "not a number"), ("x + 1", "is not an input"), ("x[0:1:2]", "not a number"),
    ],
)  # fmt: skip
def test_a_text_that_says_nothing(text: str, says: str) -> None:
    with pytest.raises(CustomOpError, match=says):
        shapes.read(ONE, text)


@pytest.mark.parametrize("text", ["x[3]", "x[-4:]", "x[:-4]", "x[2:1]"])
def test_an_axis_that_is_not_there(text: str) -> None:
    with pytest.raises(IndexError, match="rank 3"):
        shapes.evaluate(shapes.read(ONE, text), [(2, 3, 5), (7, 4)], {})


def test_a_slice_that_reaches_beyond_ends_with_the_shape() -> None:
    assert shapes.evaluate(shapes.read(ONE, "x[1:7]"), [(2, 3, 5), (7, 4)], {}) == [(3, 5)]
    assert shapes.evaluate(shapes.read(ONE, "x[5:], 9"), [(2, 3, 5), (7, 4)], {}) == [(9,)]


def test_behind_several_tensors_nothing_has_a_place() -> None:
    many = read("Many", "xs: N * T, y: T", "z: T", "", {"T": FLOATS})
    assert shapes.evaluate(shapes.read(many, "xs, N"), [(4,), (4,), (9,)], {"N": 2}) == [(4, 2)]
    with pytest.raises(CustomOpError, match="several tensors"):
        shapes.read(many, "y")
