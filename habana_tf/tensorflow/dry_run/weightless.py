"""Variables without values: a training step can be traced on them, and they take no memory.

A TensorFlow variable is a handle with a type and a shape; only assigning gives it memory. Small ones (counters, rates,
metrics) get their values, because Python code may read them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Zeros:
    """An initial value: zeros of a shape and type, which are made when it is called."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        import tensorflow as tf

        self.shape, self.dtype = tf.TensorShape(shape), tf.as_dtype(dtype)

    def __call__(self) -> Any:
        import tensorflow as tf

        return tf.zeros(self.shape, self.dtype)


SMALL = 4096
"""Elements up to which a variable gets its value."""


@contextmanager
def without_values() -> Iterator[None]:
    """Within it, large variables that are made have a type and a shape, and no value."""
    import tensorflow as tf

    with tf.variable_creator_scope(_create):
        yield


def _create(make: Callable[..., Any], **asked: Any) -> Any:
    import tensorflow as tf
    from tensorflow.python.framework import func_graph
    from tensorflow.python.ops import resource_variable_ops

    shape, dtype = asked.get("shape"), asked.get("dtype")
    if shape is None or dtype is None:
        value = asked["initial_value"]
        if isinstance(value, functools.partial) and {"shape", "dtype"} <= value.keywords.keys():  # of an initializer
            value = Zeros(value.keywords["shape"], value.keywords["dtype"])
        if callable(value) and not isinstance(value, Zeros):
            with func_graph.FuncGraph("value").as_default():  # its shape and type, not its numbers
                value = tf.convert_to_tensor(value(), dtype)
        elif not hasattr(value, "dtype"):
            value = tf.convert_to_tensor(value, dtype)
        shape, dtype = value.shape, value.dtype
    shape = tf.TensorShape(shape)
    if not shape.is_fully_defined() or math.prod(shape) <= SMALL:
        return make(**asked)
    return resource_variable_ops.UninitializedVariable(
        trainable=asked.get("trainable"), name=asked.get("name"), shape=shape, dtype=dtype,
        synchronization=asked.get("synchronization"), aggregation=asked.get("aggregation"),
    )  # fmt: skip
