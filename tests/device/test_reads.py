"""What Python reads of tensors on HPU: the numbers, dtypes and shapes that TensorFlow itself gives, however read."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.child import on_hpu, python

SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 5), (0,), (3, 0, 2), (7, 1, 3)]
DTYPES = [
    tf.float32, tf.float64, tf.bfloat16, tf.float16, tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32,
    tf.uint32, tf.int64, tf.uint64, tf.complex64, tf.complex128,
]  # fmt: skip


def _on_card(array: np.ndarray, dtype: tf.DType) -> tf.Tensor:
    with tf.device("/CPU:0"):
        x = tf.constant(array, dtype)
    return tf.identity(x)


@on_hpu
def test_numbers_are_those_that_tensorflow_reads() -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        for shape in SHAPES:
            array = rng.integers(0, 2 if dtype == tf.bool else 100, shape).astype(dtype.as_numpy_dtype)
            x = _on_card(array, dtype)
            with tf.device("/CPU:0"):
                want = tf.constant(array, dtype).numpy()
            got = x.numpy()
            assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape, (dtype, shape)
            np.testing.assert_array_equal(got, want)
            if shape or dtype != tf.bfloat16:  # of which NumPy can make no array without HPU either
                np.testing.assert_array_equal(np.asarray(x), want)
            assert x.numpy().tolist() == want.tolist()


@on_hpu
def test_python_s_own_numbers() -> None:
    x = tf.constant([1.5, 2.5]) * 2.0
    assert x.device.endswith("HPU:0")
    assert float(x[0]) == 3.0 and int(x[1]) == 5 and bool(x[0] > x[1]) is False and f"{x[0]:.1f}" == "3.0"
    v = tf.Variable([1, 2], dtype=tf.int64)
    v.assign_add([1, 1])
    assert v.numpy().tolist() == [2, 3]


@on_hpu
def test_a_variable_within_a_tape_and_a_trace() -> None:
    with tf.GradientTape() as tape:  # which sees no step between: numbers have no gradient
        v = tf.Variable(2.0)
        y = v * v.numpy()
    assert float(tape.gradient(y, v)) == 2.0
    unread = v.assign(5.0, read_value=True)
    assert float(unread.numpy()) == 5.0

    @tf.function
    def inside() -> tf.Tensor:
        with np.testing.assert_raises(NotImplementedError):
            v.numpy()
        return tf.identity(v)

    assert float(inside()) == 5.0


@on_hpu
def test_what_is_read_is_a_copy() -> None:
    x = tf.ones((4,)) * 2.0
    x.numpy()[:] = 7
    assert x.numpy().tolist() == [2, 2, 2, 2]


@on_hpu
def test_within_a_trace_and_on_other_devices() -> None:
    x = tf.constant(2.0) * 3.0

    @tf.function
    def f(y: tf.Tensor) -> tf.Tensor:
        return y * float(x.numpy())

    assert f(tf.constant(2.0)).numpy() == 12
    with tf.device("/CPU:0"):
        assert x.numpy() == 6, "the place where ops go does not matter"
        assert (tf.constant([1, 2]) + 1).numpy().tolist() == [2, 3]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        y.numpy()
    assert tape.gradient(y, x).numpy() == 12


def test_ops_that_run_later_and_ops_that_fail() -> None:
    done = python(
        """
        import tensorflow as tf, habana_tf
        habana_tf.load_habana_module()
        a, x = tf.ones((2, 3)), tf.ones((4,))
        tf.config.experimental.set_synchronous_execution(False)
        for _ in range(50):
            x = x * 1.5
        assert abs(float(x[0]) / 1.5**50 - 1) < 1e-5
        try:
            tf.raw_ops.MatMul(a=a, b=a).numpy()
        except tf.errors.InvalidArgumentError as error:
            assert "MatMul" in str(error), error
        else:
            raise AssertionError("read what failed")
        """,
        imported=True,
        timeout=120,
    )
    assert done.returncode == 0
