"""Calls of traced functions: what is found once is what would be found each time, and is found no more often."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tensorflow as tf

from tests.child import on_hpu


def _numbers(*shape: int) -> Any:
    return iter(tf.data.Dataset.from_tensors(tf.ones(shape)).repeat())


@contextmanager
def _counted(owner: Any, name: str) -> Iterator[list[Any]]:
    """The first arguments of all calls of a function while this is entered."""
    calls: list[Any] = []
    original: Callable[..., Any] = getattr(owner, name)

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0])
        return original(*args, **kwargs)

    setattr(owner, name, counting)
    try:
        yield calls
    finally:
        setattr(owner, name, original)


@on_hpu
def test_a_call_hashes_as_much_for_many_variables_as_for_few() -> None:
    from tensorflow.python.framework.tensor import DenseSpec

    def hashes(variables: int) -> int:
        with tf.device("/CPU:0"):
            many = [tf.Variable(float(i)) for i in range(variables)]
        step = tf.function(lambda x: x + tf.add_n(many))
        step(tf.constant(1.0)), step(tf.constant(1.0))
        with _counted(DenseSpec, "__hash__") as hashed:
            assert float(step(tf.constant(1.0))) == 1.0 + sum(range(variables))
        return len(hashed)

    assert 0 < hashes(2) == hashes(50)


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


@on_hpu
def test_a_step_is_looked_for_once_an_iterator() -> None:
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    total = tf.Variable(0.0)
    step = tf.function(lambda iterator: total.assign_add(tf.reduce_sum(next(iterator))))
    with _counted(tracing_compilation, "_maybe_define_function") as looked:
        first = _numbers(2)
        step(first)  # traces, and calls the trace itself
        looked.clear()
        for _ in range(5):
            step(first)
        assert len(looked) == 1
        second = _numbers(2)
        for _ in range(3):
            step(second)
        assert len(looked) == 2
        wide = _numbers(3)
        for _ in range(3):
            step(wide)
    assert float(total) == 2.0 * 9 + 3.0 * 3 and step.experimental_get_tracing_count() == 2


@on_hpu
def test_functions_that_share_an_iterator_run_themselves() -> None:
    iterator = iter(tf.data.Dataset.range(1, 100))
    double, square = tf.function(lambda i: next(i) * 2), tf.function(lambda i: next(i) ** 2)
    found = [int(step(iterator)) for step in (double, double, square, square, double, square)]
    assert found == [2, 4, 9, 16, 10, 36]


@on_hpu
def test_what_is_decided_by_where_the_call_stands() -> None:
    """In eager mode, in a graph, within another function, beside a tape: as without the shortcut."""
    iterator = iter(tf.data.Dataset.range(1, 100))
    v = tf.Variable(2.0)
    step = tf.function(lambda i: tf.cast(next(i), tf.float32) * v)
    assert [float(step(iterator)) for _ in range(2)] == [2.0, 4.0]
    tf.config.run_functions_eagerly(True)
    try:
        assert float(step(iterator)) == 6.0
    finally:
        tf.config.run_functions_eagerly(False)
    outer = tf.function(lambda i: step(i) + step(i))
    assert float(outer(iterator)) == 18.0 and float(step(iterator)) == 12.0
    with tf.GradientTape() as tape:
        y = step(iterator)
    assert float(y) == 14.0 and float(tape.gradient(y, v)) == 7.0
    v.assign(3.0)
    assert float(step(iterator)) == 24.0


@on_hpu
def test_a_strategy_s_scope_traces_anew() -> None:
    strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
    iterator = _numbers(2)
    seen: list[bool] = []

    @tf.function
    def step(i: Any) -> tf.Tensor:
        seen.append(tf.distribute.in_cross_replica_context())
        return tf.reduce_sum(next(i))

    step(iterator), step(iterator)
    before = len(seen)
    with strategy.scope():
        assert [float(step(iterator)) for _ in range(2)] == [2.0, 2.0]
    assert seen[:before] == [False] * before and seen[before:] and all(seen[before:])
    after = len(seen)
    assert float(step(iterator)) == 2.0 and len(seen) == after


@on_hpu
def test_distributed_iterators() -> None:
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(1, 9).batch(2))
    step = tf.function(lambda i: strategy.reduce("SUM", strategy.run(tf.reduce_sum, [next(i)]), axis=None))
    step(iter(data))  # traces
    for _ in range(2):  # epochs
        iterator = iter(data)
        with _counted(tracing_compilation, "_maybe_define_function") as looked:
            assert [int(step(iterator)) for _ in range(4)] == [3, 7, 11, 15]
            with pytest.raises(tf.errors.OutOfRangeError):
                step(iterator)
        assert len(looked) == 1


@on_hpu
def test_what_is_captured_by_reference_is_read_at_each_call() -> None:
    kept = {"x": tf.constant(1.0)}

    @tf.function
    def step(i: Any) -> tf.Tensor:
        graph = tf.compat.v1.get_default_graph()
        x = graph._experimental_capture_side_input_by_ref("x", lambda: kept["x"])
        return tf.reduce_sum(next(i)) * x

    iterator = _numbers(2)
    assert [float(step(iterator)) for _ in range(3)] == [2.0] * 3
    kept["x"] = tf.constant(5.0)
    assert [float(step(iterator)) for _ in range(3)] == [10.0] * 3


@on_hpu
def test_a_value_captured_at_each_call_is_asked_for_each_time() -> None:
    values = iter([1.0, 2.0, 3.0, 4.0])

    @tf.function
    def step(i: Any) -> tf.Tensor:
        graph = tf.compat.v1.get_default_graph()
        now = graph.capture_call_time_value(lambda: tf.constant(next(values)), tf.TensorSpec([], tf.float32))
        return tf.reduce_sum(next(i)) * now

    iterator = _numbers(2)
    assert [float(step(iterator)) for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]


@on_hpu
def test_an_iterator_lives_no_longer() -> None:
    iterator = _numbers(2)
    step = tf.function(lambda i: next(i) + 1.0)
    step(iterator), step(iterator), step(iterator)
    gone = weakref.ref(iterator)
    del iterator
    gc.collect()
    assert gone() is None


@on_hpu
def test_a_graph_that_called_a_step_lives_no_longer() -> None:
    iterator = _numbers(2)
    step = tf.function(lambda i: next(i) + 1.0)
    graphs: list[Any] = []

    @tf.function
    def outer() -> tf.Tensor:
        graphs.append(weakref.ref(tf.compat.v1.get_default_graph()))
        return step(iterator) + step(iterator)

    assert outer().numpy().tolist() == [4.0, 4.0]
    del outer
    gc.collect()
    assert graphs and all(graph() is None for graph in graphs)
    assert step(iterator).numpy().tolist() == [2.0, 2.0]


@on_hpu
def test_tensorflow_gets_its_own_way_back() -> None:
    from tensorflow.core.function.polymorphism.function_type import FunctionType
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    from habana_tf.tensorflow_changes.change import install, undo
    from habana_tf.tensorflow_changes.functions import FUNCTION_CALLS

    places = ((FunctionType, "__hash__"), (tracing_compilation, "call_function"))
    changed = [getattr(owner, name) for owner, name in places]
    undo(FUNCTION_CALLS)
    try:
        own = [getattr(owner, name) for owner, name in places]
        assert all("tensorflow" in found.__module__ for found in own)
        iterator = _numbers(2)
        step = tf.function(lambda i: tf.reduce_sum(next(i)))
        assert [float(step(iterator)) for _ in range(2)] == [2.0, 2.0]
    finally:
        install(FUNCTION_CALLS)
    assert all("habana_tf" in found.__module__ for found in changed)
    assert all("habana_tf" in getattr(owner, name).__module__ for owner, name in places)
