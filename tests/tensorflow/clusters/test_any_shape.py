"""Shapes collapse to as few symbolic axes as their broadcasting needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from habana_tf.tensorflow.clusters.any_shape import generalize

ELEMENTWISE: Any = SimpleNamespace(generic="elementwise", fixed=())
FILL: Any = SimpleNamespace(generic="fill", fixed=("dims",))
FILL_NODE: Any = SimpleNamespace(inputs=((-1, 0), (-1, 1)), arg_slices={"dims": slice(0, 1)})


@pytest.mark.parametrize(
    "shapes, collapsed, dims, result",
    [
        ([(32, 26, 26, 8), (8,)], ["s0,s1", "s1"], [32 * 26 * 26, 8], (32, 26, 26, 8)),
        ([(5, 7), ()], ["s0", ""], [35], (5, 7)),
        ([(4, 1, 3), (1, 6, 3)], ["s0,1,s2", "s1,s2"], [4, 6, 3], (4, 6, 3)),
        ([(1, 1), (1,)], ["", ""], [], (1, 1)),
        ([(2, 3, 4)] * 3, ["s0"] * 3, [24], (2, 3, 4)),
    ],
)
def test_axes_of_one_pattern_are_one_axis(shapes: Any, collapsed: list[str], dims: list[int], result: Any) -> None:
    form = generalize(ELEMENTWISE, FILL_NODE, shapes, [None] * len(shapes))
    assert form is not None
    assert [",".join(map(str, s)) for s in form.shapes] == collapsed
    assert (form.dims, form.result) == (dims, result)


CHANNELS: Any = SimpleNamespace(generic="channels", fixed=())


def given(**attrs: Any) -> Any:
    return SimpleNamespace(attrs=attrs, op="FusedBatchNormV3")


def test_rows_and_channels_are_two_axes() -> None:
    shapes = [(2, 14, 14, 160), (160,), (160,)]
    form = generalize(CHANNELS, given(is_training=False, data_format="NHWC"), shapes, [None] * 3)
    assert form is not None
    assert [",".join(map(str, s)) for s in form.shapes] == ["1,1,s0,s1", "s1", "s1"]
    assert (form.dims, form.result) == ([2 * 14 * 14, 160], (2, 14, 14, 160))
    assert form.results([*form.shapes[:2], (0,)]) == [(2, 14, 14, 160), (160,), (0,)]


@pytest.mark.parametrize(
    "attrs, shapes",
    [
        ({"is_training": True}, [(2, 14, 14, 160), (160,)]),
        ({"data_format": "NCHW"}, [(2, 160, 14, 160), (160,)]),
        ({}, [(2, 14, 14, 160), (80,)]),
        ({}, [(2, 0, 14, 160), (160,)]),
        ({}, [(160,), (160,)]),
        ({}, [(64, 112, 112, 24), (24,)]),  # many short rows
    ],
)
def test_what_has_no_form_over_channels(attrs: Any, shapes: Any) -> None:
    assert generalize(CHANNELS, given(**attrs), shapes, [None] * 2) is None


@pytest.mark.parametrize("shapes", [[(0, 3), (3,)], [(2,), (3,)]])
def test_empty_or_unbroadcastable_shapes_have_no_generic_form(shapes: Any) -> None:
    assert generalize(ELEMENTWISE, FILL_NODE, shapes, [None, None]) is None


def test_fill_is_over_one_symbolic_extent() -> None:
    form = generalize(FILL, FILL_NODE, [(2,), ()], [np.array([3, 4]), None])
    assert form is not None and form.values[0] is not None
    assert ([str(v) for v in form.values[0]], form.dims, form.result) == (["s0"], [12], (3, 4))
    assert generalize(FILL, FILL_NODE, [(2,), ()], [np.array([0, 4]), None]) is None
