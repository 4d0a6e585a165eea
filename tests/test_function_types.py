"""A call of a traced function does not hash what the function captures; what is found by type stays what it was."""

from __future__ import annotations

import tensorflow as tf

from tests.child import on_hpu


@on_hpu
def test_a_call_hashes_as_much_for_many_variables_as_for_few() -> None:
    from tensorflow.python.framework.tensor import DenseSpec

    hashed = []
    original = DenseSpec.__hash__

    def counted(self: DenseSpec) -> int:
        hashed.append(self)
        return original(self)

    def hashes(variables: int) -> int:
        with tf.device("/CPU:0"):
            many = [tf.Variable(float(i)) for i in range(variables)]
        step = tf.function(lambda x: x + tf.add_n(many))
        step(tf.constant(1.0)), step(tf.constant(1.0))
        hashed.clear()
        assert float(step(tf.constant(1.0))) == 1.0 + sum(range(variables))
        return len(hashed)

    DenseSpec.__hash__ = counted  # type: ignore[method-assign]  # given back below
    try:
        few, many = hashes(2), hashes(50)
    finally:
        DenseSpec.__hash__ = original  # type: ignore[method-assign]  # as above
    assert 0 < few == many


@on_hpu
def test_types_that_are_equal_hash_alike_and_each_shape_has_its_trace() -> None:
    kept = tf.Variable([1.0, 2.0])
    step = tf.function(lambda x: tf.reduce_sum(x) * kept)
    for n in (2, 3, 2, 3):
        step(tf.ones([n]))
    assert step.experimental_get_tracing_count() == 2

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def open_step(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x) * kept

    first, second = (step.get_concrete_function(tf.ones([n])).function_type for n in (2, 2))
    assert first == second and hash(first) == hash(second) == hash(first)
    assert first != step.get_concrete_function(tf.ones([3])).function_type
    assert [open_step(tf.ones([n])).numpy().tolist() for n in (2, 3)] == [[2.0, 4.0], [3.0, 6.0]]
    assert open_step.experimental_get_tracing_count() == 1
