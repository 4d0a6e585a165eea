"""What our compiler cannot take runs as TensorFlow runs it: each test breaks a lowering on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from habana_tf.tensorflow.lowering import table
from tests.child import fallbacks, on_hpu, python

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]], "f4")


@contextmanager
def broken(*ops: str, error: type[Exception] = TypeError) -> Iterator[None]:
    """Lets the lowerings of these ops fail, as by a defect, and other ways to run them be taken."""

    def fail(_: Any) -> Any:
        raise error("a defect")

    rows = {op: table.lookup(op) for op in ops}
    for op, row in rows.items():
        assert row is not None
        table.ROWS[op] = dataclasses.replace(row, lower=fail)
    try:
        with fallbacks():
            yield
    finally:
        table.ROWS.update({op: row for op, row in rows.items() if row is not None})


@on_hpu
def test_a_cluster_and_an_eager_op() -> None:
    with broken("Tanh"):
        got = tf.function(lambda x: tf.tanh(x * 2.0) + tf.reduce_sum(x))(tf.constant(X))
        np.testing.assert_allclose(got, np.tanh(X * 2) + X.sum(), rtol=1e-6)
        np.testing.assert_allclose(tf.tanh(tf.constant(X + 1)), np.tanh(X + 1), rtol=1e-6)


@on_hpu
def test_updates_of_variables() -> None:
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 2.0])

    @tf.function
    def step(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        v.assign_sub(x)
        for variable, delta in ((v, x), (w, x * 2.0)):
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.5, delta=delta)
        return v.read_value() * 1.0, w.read_value() * 2.0

    with broken("ResourceApplyGradientDescent"):
        first, second = step(tf.ones(2)), step(tf.ones(2))
        tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.5, delta=tf.ones(2))
    np.testing.assert_array_equal(first, [[-0.5, 0.5], [4.0, 2.0]])
    np.testing.assert_array_equal(second, [[-2.0, -1.0], [2.0, 0.0]])
    np.testing.assert_array_equal(v, [-2.5, -1.5])


@on_hpu
def test_values_that_fix_a_shape() -> None:
    with broken("Tile"):
        f = tf.function(lambda x, n: tf.tile(x + 1.0, n), reduce_retracing=True)
        for n in ([1, 2], [3, 1]):
            np.testing.assert_array_equal(f(tf.constant(X), tf.constant(n)), np.tile(X + 1, n))


@on_hpu
def test_where_tensorflow_refuses_too_the_error_is_its_own() -> None:
    f = tf.function(lambda x, y: tf.matmul(tf.sin(x), y), input_signature=[tf.TensorSpec(None)] * 2)
    with broken("BatchMatMulV2", "MatMul"):
        try:
            f(tf.constant(X), tf.constant(X))
        except tf.errors.InvalidArgumentError as error:
            assert "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]" in str(error)
        else:
            raise AssertionError("not refused")


def test_the_end_of_a_process_names_what_could_not_be_compiled() -> None:
    script = """
    import tensorflow as tf
    import habana_tf
    habana_tf.load_habana_module()
    from tests.tensorflow.clusters.test_cpu_kernels import X, broken
    with broken("Tanh", "Sinh"):
        tf.tanh(tf.constant(X)), tf.tanh(tf.constant(X[:1])), tf.sinh(tf.constant(X))
    print("worked", flush=True)
    """
    last = python(script, imported=True).stderr.strip().splitlines()[-1]
    assert "2 ops or clusters of this process could not be compiled" in last, last
    assert "Tanh (TypeError: a defect); Sinh (TypeError: a defect)" in last and "please report" in last
    nothing = python(script.replace('"Tanh", "Sinh"', ""), imported=True)
    assert "could not be compiled" not in nothing.stderr
