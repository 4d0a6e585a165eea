"""Large constants are not computed where nothing runs: theirs would take more memory than any host has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Op
from habana_tf.tensorflow.clusters.attributes import plain
from habana_tf.tensorflow.graph import large_constants
from tests.child import on_hpu

SIDE = 1 << 20
"""Of a square of 4 TB in fp32."""


def marked(fn: Any) -> list[str]:
    graph = tf.function(fn).get_concrete_function(tf.TensorSpec((4,))).graph
    return sorted(op.type for op in large_constants.large(graph.get_operations()))


def test_only_what_works_on_large_constants_is_marked() -> None:
    assert marked(lambda x: x * tf.reduce_mean(tf.sin(tf.ones((SIDE, SIDE))))) == ["Mean", "Sin"]
    assert marked(lambda x: x * tf.reduce_mean(tf.cast(tf.range(1024) < 7, tf.float32))) == []
    assert marked(lambda x: tf.ones((SIDE, 4)) * x) == [], "it follows from x"
    assert marked(lambda x: x * tf.reduce_mean(tf.random.uniform((SIDE, SIDE)))) == [], "it differs each time"


def test_a_constant_of_one_value_has_the_memory_of_one() -> None:
    proto = tf.make_tensor_proto(1.5, shape=(SIDE, SIDE))
    array = plain(tf.compat.v1.AttrValue(tensor=proto))
    assert array.shape == (SIDE, SIDE) and array[5, 7] == 1.5 and not any(array.strides)
    node = Builder().literal(array)
    assert node.shape == (SIDE, SIDE) and all(n.op is not Op.CONST or not n.shape for n in (node, *node.src))
    assert (plain(tf.compat.v1.AttrValue(tensor=tf.make_tensor_proto([[1, 2], [3, 4]]))) == [[1, 2], [3, 4]]).all()
    assert (
        plain(tf.compat.v1.AttrValue(tensor=tf.make_tensor_proto(np.zeros((2, 3), "i4")))) == np.zeros((2, 3))
    ).all()


@pytest.mark.rest
@on_hpu
def test_predictions_compute_none_in_functions_that_are_called_either() -> None:
    import habana_tf

    @tf.function
    def inner(x: Any) -> Any:
        return x * tf.reduce_mean(tf.linalg.band_part(tf.sin(tf.ones((SIDE, SIDE))), -1, 0))

    for fn in (inner, lambda x: inner(x) + tf.reduce_sum(tf.ones((SIDE, SIDE)) * 2.0)):
        assert habana_tf.predict(fn, (4,)).step_seconds > 1
