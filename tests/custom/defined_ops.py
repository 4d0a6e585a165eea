"""Ops defined by a lowering, and what they are in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from habana_tf.custom import ALL, FLOATS, custom_op, wrap

X = np.linspace(-3, 3, 24, dtype="f4").reshape(4, 6)


def swish(x: Any, beta: float = 1.0) -> Any:
    x = np.asarray(x, np.float64)
    return x / (1 + np.exp(-beta * x))


@custom_op(
    "TestSwish", inputs="x: T", outputs="y: T", attrs={"beta": 1.0}, T=FLOATS, shapes="x", elementwise=True,
    bf16="conditional",
)  # fmt: skip
def soft_swish(c: Any) -> Any:
    x = wrap(c.b, c.inputs[0])
    return (x * (x * c.attr("beta")).map("sigmoid")).done(c.inputs[0].dtype)


@tf.RegisterGradient("TestSwish")
def _swish_grad(op: Any, dy: Any) -> Any:
    x, beta = op.inputs[0], op.get_attr("beta")
    s = tf.sigmoid(beta * x)
    return dy * (s + beta * x * s * (1 - s))


@custom_op("TestMinMax", inputs="x: T", outputs="low: T, high: T", attrs={"axis": -1}, T=ALL, shapes="*; *")
def min_max(c: Any) -> Any:
    (x,) = c.inputs
    if x.rank == 0:
        raise c.error("it has no axis")
    axis = c.attr("axis") % x.rank
    return [c.b.reduce("min", x, [axis]), c.b.reduce("max", x, [axis])]


@custom_op("TestTotal", inputs="xs: N * T, k: int32", outputs="y: T", T=FLOATS, shapes="xs")
def total(c: Any) -> Any:
    first, *rest = c.input_list("xs")
    out = wrap(c.b, first)
    for x in rest:
        out = out + wrap(c.b, x)
    return (out * wrap(c.b, c.b.cast(c.input("k"), first.dtype))).done(first.dtype)
