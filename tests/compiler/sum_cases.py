"""Kinds of sums, the numbers that are added up, and how far a result is from float64's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from habana_tf._native import _bridge
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.recipe import bind
from habana_tf.hardware.cpu import Target, target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program

UNIT = 2.0**-24
BLOCKS = 6
"""Units of the last place that may be lost for each doubling of the length: a block of 256 equal terms loses 40."""
PRODUCTS = 24
"""The same of products, whose blocks of 1024 terms lose 225."""


class Sum(NamedTuple):
    """shape: of the operand; program: its result; exact: the same in NumPy, also for the size of errors; lost: units of
    the last place that may be, for each doubling of the length. free: the axis that is long, whose size may be known at
    run time only."""

    shape: tuple[int, ...]
    program: Callable[[Builder, Node], Node]
    exact: Callable[[Any], Any]
    length: int
    lost: int = BLOCKS
    free: int = 0

    @property
    def bound(self) -> float:
        return self.lost * math.log2(self.length)


def reduced(*shape: int, axes: tuple[int, ...]) -> Sum:
    length = math.prod(shape[k] for k in axes)
    return Sum(shape, lambda b, x: b.reduce("sum", x, axes), lambda x: x.sum(axes), length, free=axes[-1])


def scanned(*shape: int, axis: int, reverse: bool = False) -> Sum:
    def exact(x: Any) -> Any:
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)

    return Sum(shape, lambda b, x: b.scan("sum", x, axis, reverse=reverse), exact, shape[axis], free=axis)


def product(*shape: int) -> Sum:
    spec = Contraction(a=(0, 1), b=(0, 2), out=(1, 2))
    return Sum(shape, lambda b, x: b.contract(x, x, spec), lambda x: x.T @ x, shape[0], PRODUCTS)


def square(*shape: int) -> Sum:
    spec = Contraction(a=(0, 1), b=(2, 1), out=(0, 2))
    return Sum(shape, lambda b, x: b.contract(x, x, spec), lambda x: x @ x.T, shape[1], PRODUCTS, 1)


def beside(*shape: int) -> Sum:
    """The columns of a product, which are added up in its kernel."""

    def program(b: Builder, x: Node) -> Node:
        eye = b.const(1.0, DType.F32, (shape[1], 32))
        return b.reduce("sum", b.contract(x, eye, Contraction(a=(0, 1), b=(1, 2), out=(0, 2))), (0,))

    return Sum(shape, program, lambda x: np.broadcast_to(x.sum((0, 1)), (32,)), shape[0])


NUMBERS = {
    "equal": lambda shape: np.full(shape, 0.1, np.float32),
    "uniform": lambda shape: np.random.default_rng(1).random(shape, np.float32),
    "normal": lambda shape: np.random.default_rng(2).standard_normal(shape, np.float32),
}


def scattered(*shape: int) -> Sum:
    """Rows that are added to two places: each fifth one to the second."""

    def program(b: Builder, x: Node) -> Node:
        turn = b.binary("floormod", b.iota(x.shape[:1], 0, DType.I32), b.const(5, DType.I32))
        at = b.cast(b.binary("eq", turn, b.const(4, DType.I32)), DType.I32)
        return b.scatter(b.const(0.0, x.dtype, (2, *shape[1:])), x, [at], [0], "add")

    def exact(x: Any) -> Any:
        fifth = np.arange(len(x)) % 5 == 4
        return np.stack([x[~fifth].sum(0), x[fifth].sum(0)])

    return Sum(shape, program, exact, shape[0], PRODUCTS)


def made(kind: Sum, dtype: DType = DType.F32, symbolic: bool = False) -> Program:
    """A kind's program; symbolic: the size of its long axis is known at run time only."""
    b = Builder()
    x = b.input([ext.sym(0) if symbolic and k == kind.free else n for k, n in enumerate(kind.shape)], dtype)
    return Program(b.inputs, [kind.program(b, x)])


def run(kind: Sum, x: Any, symbolic: bool = False, goal: Target | None = None) -> Any:
    """The compiled program's result."""
    goal, dtype = goal or target(), DType.F32 if x.dtype == np.float32 else DType.BF16
    recipe = compile_program(made(kind, dtype, symbolic), "test", goal)
    bound = bind(recipe, (kind.shape[kind.free],) if symbolic else (), None, goal)
    (raw,) = _bridge.run_program(bound, [np.ascontiguousarray(x)], [])
    element, _ = recipe.outputs[0]
    return raw.view(element.numpy).reshape(kind.exact(np.zeros(kind.shape)).shape)


def lost(kind: Sum, x: Any, got: Any) -> float:
    """Units of the last place, of the sum of the terms' absolute values, that the result is off."""
    wide = x.astype(np.float64)
    return float((np.abs(got.astype(np.float64) - kind.exact(wide)) / kind.exact(np.abs(wide))).max() / UNIT)
