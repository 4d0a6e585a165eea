"""Products of bf16 against stock TensorFlow's in float32, in each way that this CPU can compute them.

The sizes are those at which either way has code of its own: rows and sums long enough for pairs, odd ones, and operands
that are widened before the product begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, reference
from rounding import UNITS, check_rounded

from habana_tf.hardware.cpu import host, target
from tests.hardware.bf16_ways import multiply_bf16_by

R = tf.raw_ops
WAYS = ["dot", "widen"] if target(host()).multiplies_bf16_pairs else ["widen"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    multiply_bf16_by(request.param, monkeypatch)
    assert target().bf16_products == request.param
    return str(request.param)


def check(fn: Any, *shapes: tuple[int, ...]) -> None:
    """Asserts that the op on bf16 is the one on float32 of the same numbers, rounded once."""
    arrays = [np.random.default_rng([k, *s]).normal(size=s).astype(BF16) for k, s in enumerate(shapes)]
    (summed,) = reference(fn, *(np.abs(x.astype(F32)) for x in arrays))
    check_rounded(fn, *arrays, rtol=0, atol=UNITS * float(summed.max()))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(24, 8, 16), (130, 65, 70), (100, 33, 9), (320, 256, 128)])
def test_matmul(m: int, k: int, n: int, ta: bool, tb: bool) -> None:
    shapes = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    check(lambda a, b: R.MatMul(a=a, b=b, transpose_a=ta, transpose_b=tb), *shapes)


@pytest.mark.usefixtures("way")
def test_batch_matmul() -> None:
    check(lambda x, y: R.BatchMatMulV2(x=x, y=y, adj_y=True), (2, 3, 40, 24), (3, 33, 24))


CONVOLUTIONS = [
    ((2, 14, 14, 16), (3, 3, 16, 40), 1, "SAME"),
    ((1, 21, 20, 5), (5, 5, 5, 17), 2, "SAME"),
    ((2, 28, 28, 24), (1, 1, 24, 144), 1, "VALID"),
    ((2, 28, 28, 96), (1, 1, 96, 20), 1, "VALID"),
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("which", ["forward", "input", "filter"])
@pytest.mark.parametrize(("x", "w", "stride", "padding"), CONVOLUTIONS)
def test_convolutions(x: tuple[int, ...], w: tuple[int, ...], stride: int, padding: str, which: str) -> None:
    attrs: dict[str, Any] = {"strides": [1, stride, stride, 1], "padding": padding}
    y = tuple(R.Conv2D(input=tf.zeros(x), filter=tf.zeros(w), **attrs).shape)
    if which == "forward":
        check(lambda a, b: R.Conv2D(input=a, filter=b, **attrs), x, w)
    elif which == "input":
        fn = lambda f, g: R.Conv2DBackpropInput(input_sizes=x, filter=f, out_backprop=g, **attrs)
        check(fn, w, y)
    else:
        fn = lambda f, g: R.Conv2DBackpropFilter(input=f, filter_sizes=w, out_backprop=g, **attrs)
        check(fn, x, y)


def test_the_ways_are_different_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the tests above would compare one way with itself."""
    from habana_tf.compiler.codegen.tiles.program import emit_contract
    from habana_tf.compiler.contraction import ContractSpec, Operand
    from habana_tf.ir.dtypes import DType

    operand = Operand(DType.BF16, (64, 0, 1)), Operand(DType.BF16, (0, 64, 1)), Operand(DType.BF16, (64, 1, 0))
    found = set()
    for way in WAYS:
        multiply_bf16_by(way, monkeypatch)
        code = emit_contract(ContractSpec((64, 64, 64), *operand), target(), "k")
        found.add("".join(call.ir for call in code.calls))
    assert len(found) == len(WAYS)
