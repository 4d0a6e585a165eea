"""A function on HPU computes what its ops compute one by one, special values too; of what TensorFlow's own optimizers
do to graphs only the folding of constants is left (see docs/special-values.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tests.child import on_hpu

X = np.array([3e38, 1e-40, -1e-40, 1e-20, np.inf, -np.inf, np.nan, -1.0, 0.0, -0.0, 2.0, *[1.5] * 9], np.float32)
Program = Callable[[tf.Tensor], tf.Tensor]
COMPUTED: dict[str, Program] = {
    "1 / (1 / x)": lambda x: 1 / (1 / x),
    "sqrt(x) * sqrt(x)": lambda x: tf.sqrt(x) * tf.sqrt(x),
    "sqrt(x * x)": lambda x: tf.sqrt(x * x),
    "rsqrt(x) * rsqrt(x)": lambda x: tf.math.rsqrt(x) * tf.math.rsqrt(x),
    "log(exp(x))": lambda x: tf.math.log(tf.exp(x)),
    "x * 1.5": lambda x: x * 1.5,
    "x / x": lambda x: x / x,
    "x - x": lambda x: x - x,
    "neg(neg(x))": lambda x: tf.negative(-x),
}
FOLDED: dict[str, Program] = {
    "x * 0": lambda x: x * 0.0,
    "x + 0": lambda x: x + 0.0,
    "x * 2 * 0.5": lambda x: x * 2.0 * 0.5,
}


def on_the_cpu(program: Program) -> np.ndarray:
    with tf.device("/CPU:0"):
        return np.asarray(program(tf.constant(X)))


@on_hpu
def test_functions_compute_what_is_written() -> None:
    for name, program in COMPUTED.items():
        wanted = on_the_cpu(program)
        for way, form in (("eagerly", program), ("in a function", tf.function(program, autograph=False))):
            np.testing.assert_allclose(form(tf.constant(X)), wanted, rtol=1e-6, atol=0, err_msg=f"{name}, {way}")


@on_hpu
def test_constants_are_folded_as_in_stock_tensorflow() -> None:
    for name, program in FOLDED.items():
        np.testing.assert_array_equal(program(tf.constant(X)), on_the_cpu(program), err_msg=name)
        wanted = on_the_cpu(tf.function(program, autograph=False))
        np.testing.assert_array_equal(tf.function(program, autograph=False)(tf.constant(X)), wanted, err_msg=name)
        assert not np.array_equal(wanted, on_the_cpu(program), equal_nan=True)


def test_stock_tensorflow_simplifies_its_functions() -> None:
    """By op, its CPU kernels give infinity for 1 / (1 / 3e38), in a function x: this is not what HPU is held to."""
    program = COMPUTED["1 / (1 / x)"]
    assert on_the_cpu(program)[0] == np.inf
    assert on_the_cpu(tf.function(program, autograph=False))[0] == X[0]
