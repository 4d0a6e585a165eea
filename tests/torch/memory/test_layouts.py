"""Permutations move behind what follows them, and programs compute the same: run by the interpreter, beside a builder
that moves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op, Program
from habana_tf.torch.memory.layouts import SinkingBuilder, groups

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
SHAPE = (2, 5, 4, 6)
Made = Callable[[Builder, Node, Node], Node]

SUNK: dict[str, Made] = {
    "one operand": lambda b, x, y: b.map("exp", b.permute(x, FIRST)),
    "two operands": lambda b, x, y: b.map("add", b.permute(x, FIRST), b.permute(y, FIRST)),
    "a row": lambda b, x, y: b.binary("add", b.permute(x, FIRST), b.reshape(b.reduce("sum", y, (0, 1, 2)), (6, 1, 1))),
    "numbers of an axis": lambda b, x, y: b.binary("mul", b.permute(x, FIRST), b.cast(b.iota((6, 1, 1), 0), DType.F32)),
    "a picture for all": lambda b, x, y: b.binary(
        "mul", b.permute(x, FIRST), b.reduce("max", b.permute(y, FIRST), (0,))
    ),
    "sum": lambda b, x, y: b.reduce("sum", b.permute(x, FIRST), (2, 3)),
    "place": lambda b, x, y: b.reduce("argmax", b.permute(x, FIRST), (1,)),
    "join": lambda b, x, y: b.concat([b.permute(x, FIRST), b.permute(y, FIRST)], 1),
    "split axis": lambda b, x, y: b.reshape(b.permute(x, FIRST), (2, 3, 2, 5, 4, 1)),
    "joined neighbours": lambda b, x, y: b.reshape(b.permute(x, FIRST), (2, 6, 20)),
    "slice": lambda b, x, y: b.slice(b.permute(x, FIRST), (0, 1, 4, 0), (2, 2, 3, 2), (1, 2, -1, 3)),
    "pad": lambda b, x, y: b.pad(b.permute(x, FIRST), (0, 0, 1, 2), (0, 1, 0, 0), 7.0, (0, 0, 1, 0)),
    "window": lambda b, x, y: b.window(b.permute(x, FIRST), (2, 3), (2, 3), (1, 1), (2, 1)),
    "sort": lambda b, x, y: b.sort(b.permute(x, FIRST), 1, descending=True, first=3),
    "scan": lambda b, x, y: b.scan("sum", b.permute(x, FIRST), 1, reverse=True),
    "stretch": lambda b, x, y: b.expand(b.reshape(b.permute(x, FIRST), (2, 6, 5, 1, 4, 1)), (2, 6, 5, 2, 4, 3)),
}
KEPT: dict[str, Made] = {
    "with what is not permuted": lambda b, x, y: b.map("add", b.permute(b.permute(x, FIRST), (0, 2, 3, 1)), y),
    "joined strangers": lambda b, x, y: b.reshape(b.permute(x, FIRST), (12, 20)),
    "flat": lambda b, x, y: b.reshape(b.permute(x, FIRST), (2, 120)),
    "product": lambda b, x, y: b.contract(
        b.permute(x, FIRST), b.permute(y, (3, 1, 0, 2)), Contraction((0, 1, 2, 3), (1, 2, 4, 3), (4, 0))
    ),
}


def _attention(b: Builder, x: Node, y: Node) -> Node:
    """[example, row, head, number]: of examples and heads joined, as PyTorch has it."""
    rows, columns = (b.reshape(b.permute(n, (0, 2, 1, 3)), (8, 5, 6)) for n in (x, y))
    weights = b.contract(rows, b.permute(columns, (0, 2, 1)), Contraction((3, 0, 1), (3, 1, 2), (3, 0, 2)))
    weights = b.reshape(b.map("exp", b.reshape(weights, (2, 4, 5, 5))), (8, 5, 5))
    made = b.contract(weights, columns, Contraction((3, 0, 1), (3, 1, 2), (3, 0, 2)))
    return b.map("exp", b.permute(b.reshape(made, (2, 4, 5, 6)), (0, 2, 1, 3)))


def _made(b: Builder, make: Made) -> Program:
    x, y = (b.input(SHAPE, DType.F32) for _ in range(2))
    return Program(b.inputs, [make(b, x, y)])


@pytest.mark.parametrize("name", [*SUNK, *KEPT, "attention"])
def test_the_program_computes_the_same(name: str) -> None:
    given = [np.random.default_rng(k).standard_normal(SHAPE).astype(np.float32) for k in range(2)]
    make = {**SUNK, **KEPT, "attention": _attention}[name]
    (want,), (got,) = (interpreter.run(_made(b, make), given) for b in (Builder(), SinkingBuilder()))
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SUNK)
def test_a_permutation_comes_last(name: str) -> None:
    nodes = _made(SinkingBuilder(), SUNK[name]).nodes()
    assert all(n.op is not Op.PERMUTE or math.prod(n.shape) < 50 for n in nodes[:-1]), nodes


def test_products_read_heads_where_they_are() -> None:
    nodes = _made(SinkingBuilder(), _attention).nodes()
    products = [n for n in nodes if n.op is Op.CONTRACT]
    assert [n.shape for n in products] == [(2, 4, 5, 5), (2, 4, 5, 6)]
    assert products[0].src[0].op is products[0].src[1].op is Op.INPUT


def test_a_permutation_that_moves_ones_is_a_reshape() -> None:
    b = SinkingBuilder()
    x = b.input((2, 1, 1, 5), DType.F32)
    assert b.permute(x, (1, 0, 3, 2)) is b.reshape(x, (1, 2, 5, 1))


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ((2, 12), (2, 3, 4), [([0], [0]), ([1], [1, 2])]),
        ((2, 3, 4), (6, 4), [([0, 1], [0]), ([2], [1])]),
        ((2, 1), (2,), [([0], [0]), ([1], [])]),
        ((), (1, 1), [([], [0]), ([], [1])]),
        ((4, 6), (3, 8), [([0, 1], [0, 1])]),
    ],
)
def test_groups_of_axes(before: tuple[int, ...], after: tuple[int, ...], want: object) -> None:
    assert groups(before, after) == want


def test_pictures_with_channels_first_are_computed_with_channels_last() -> None:
    """Convolution, batch normalization, an activation and pooling, and their gradients, as a recording has them."""
    from habana_tf.cluster.lower import lower
    from habana_tf.torch.record.program import Recording, cluster_of

    x, w, y, flat = (2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 8, 8), (2, 64)
    kept: tuple = ((2, 4, 4, 4), "float32", None)
    whole, none = lambda at, k=0: ("value", (at, k), None), ("literal", None)
    sizes = tuple(("list", (("literal", n), ("literal", n))) for n in (1, 1, 1, 0))
    after = (sizes[0], sizes[1], sizes[2], ("literal", False), sizes[3], ("literal", 1))
    f32 = lambda shape: (shape, "float32", None)
    pool = (("list", (("literal", 2),) * 2), ("list", (("literal", 2),) * 2), sizes[3], sizes[0], ("literal", False))
    mask = ("list", (("literal", True),) * 3)
    channels = f32((4,))
    ops = (
        ("convolution_overrideable", (whole(-1, 0), whole(-1, 1), none, *after), (), (f32(y),)),
        ("native_batch_norm",
         (whole(0), none, none, none, none, ("literal", True), ("literal", 0.1), ("literal", 1e-5)),
         (), (f32(y), channels, channels)),
        ("relu", (whole(1),), (), (f32(y),)),
        ("max_pool2d_with_indices", (whole(2), *pool), (), (kept, (kept[0], "int64", None))),
        ("mul.Tensor", (("value", (3, 0), (flat, (64, 1), 0)), whole(-1, 2)), (), (f32(flat),)),
        ("max_pool2d_with_indices_backward",
         (("value", (4, 0), (kept[0], (64, 16, 4, 1), 0)), whole(2), *pool, whole(3, 1)), (), (f32(y),)),
        ("threshold_backward", (whole(5), whole(2), ("literal", 0)), (), (f32(y),)),
        ("native_batch_norm_backward",
         (whole(6), whole(0), none, none, none, whole(1, 1), whole(1, 2), ("literal", True), ("literal", 1e-5), mask),
         (), (f32(y), channels, channels)),
        ("convolution_backward_overrideable", (whole(7), whole(-1, 0), whole(-1, 1), *after, mask), (),
         (f32(x), f32(w), channels)),
    )  # fmt: skip
    recording = Recording(tuple((s, "float32") for s in (x, w, flat)), 0, 0, ops, ((8, 1), (8, 2)), (-1, -1))
    program = lower(cluster_of(recording), [x, w, flat], [None] * 3)
    computed = [n for n in program.nodes() if n.op in (Op.MAP, Op.REDUCE) and 8 in n.shape and n.rank == 4]
    assert computed
    assert all(n.shape == (2, 8, 8, 4) for n in computed), computed
