"""Code is written once for bodies that differ in their tensors only, and called with those of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from habana_tf.compiler.body import Body
from habana_tf.compiler.codegen import generate as generation
from habana_tf.compiler.codegen.equal_bodies import form
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program
from tests.compiler.running import check

LAYERS = 5
PRODUCT = Contraction((0, 1), (1, 2), (0, 2))
Made = Callable[[Builder, Node, Node], Node]


def kernels(program: Program) -> list[Body]:
    return list(schedule(rewrite(program)).kernels)


def layers(count: int = LAYERS) -> Program:
    """Products by matrices of their own, each with an epilogue, and a sum over rows that is taken from the next."""
    b = Builder()
    x = b.input((6, 6), DType.F32)
    inputs = [x]
    for _ in range(count):
        w, bias = b.input((6, 6), DType.F32), b.input((6,), DType.F32)
        inputs += [w, bias]
        y = b.map("tanh", b.binary("add", b.contract(x, w, PRODUCT), bias))
        x = b.binary("sub", y, b.reshape(b.reduce("sum", y, [1]), (6, 1)))
    return Program(inputs, [x])


def test_every_layer_computes_with_its_own_tensors() -> None:
    program = layers()
    rng = np.random.default_rng(0)
    check(program, [rng.standard_normal(n.shape).astype(np.float32) for n in program.inputs])


def test_code_of_a_layer_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Body] = []
    emit = generation._emit

    def counted(body: Body, *arguments: object) -> object:
        written.append(body)
        return emit(body, *arguments)

    monkeypatch.setattr(generation, "_emit", counted)
    counts = []
    for count in (3, 9):
        written.clear()
        program = layers(count)
        rng = np.random.default_rng(1)
        check(program, [rng.standard_normal(n.shape).astype(np.float32) for n in program.inputs], rtol=1e-4)
        counts.append(len(written))
        assert len(written) < len(kernels(program))
    assert counts[0] == counts[1]


def only(make: Made, dtype: DType = DType.F32) -> Body:
    """The one kernel of an elementwise program over two inputs."""
    b = Builder()
    x, y = b.input((5, 7), dtype), b.input((5, 7), dtype)
    (body,) = kernels(Program([x, y], [make(b, x, y)]))
    return body


def test_the_same_computation_has_one_form() -> None:
    one, two = (form(only(lambda b, x, y: b.map("add", x, b.map("exp", y)))) for _ in range(2))
    assert one[0] == two[0] and len(one[1]) == len(two[1]) == 3
    assert not set(one[1]) & set(two[1])


@pytest.mark.parametrize(
    "other",
    [
        lambda b, x, y: b.map("add", x, b.map("log", y)),
        lambda b, x, y: b.map("add", x, b.map("exp", x)),
        lambda b, x, y: b.map("add", y, b.map("exp", y)),
        lambda b, x, y: b.map("add", b.reverse(x, [0]), b.map("exp", y)),
        lambda b, x, y: b.map("sub", x, b.map("exp", y)),
    ],
    ids=["function", "tensor twice", "other twice", "index", "root"],
)
def test_another_computation_has_another_form(other: Made) -> None:
    assert form(only(other))[0] != form(only(lambda b, x, y: b.map("add", x, b.map("exp", y))))[0]


def test_numbers_and_types_are_part_of_the_form() -> None:
    def plus(number: float) -> Made:
        return lambda b, x, y: b.map("mul", b.map("add", x, b.const(number, x.dtype, x.shape)), y)

    forms = [form(only(plus(n)))[0] for n in (0.5, 1.0, -0.0)]
    forms.append(form(only(plus(0.5), DType.BF16))[0])
    assert len(set(forms)) == len(forms)
