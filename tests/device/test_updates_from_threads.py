"""Updates of one variable from several threads: none is lost, whichever ops, element types and forms meet."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tests.child import on_hpu
from tests.effort import some

Update = Callable[[], Any]
TIMES = 10
THREADS = 4


def updates(v: Any, moment: Any, one: Any) -> dict[str, Update]:
    """Ops that each add `one` to a variable, in one step on the CPU."""
    import tensorflow as tf

    raw = tf.raw_ops
    rows = tf.range(v.shape[0], dtype=tf.int64)
    at = rows[:, tf.newaxis]
    rate, none = tf.cast(1, v.dtype), tf.cast(0, v.dtype)
    handle, state = v.handle, moment.handle
    return {
        "assign_add": lambda: v.assign_add(one),
        "assign_sub": lambda: v.assign_sub(-one),
        "scatter_add": lambda: raw.ResourceScatterAdd(resource=handle, indices=rows, updates=one),
        "scatter_sub": lambda: raw.ResourceScatterSub(resource=handle, indices=rows, updates=-one),
        "scatter_nd_add": lambda: raw.ResourceScatterNdAdd(ref=handle, indices=at, updates=one),
        "gradient_descent": lambda: raw.ResourceApplyGradientDescent(
            var=handle, alpha=rate, delta=-one, use_locking=True
        ),
        "momentum": lambda: raw.ResourceApplyMomentum(
            var=handle, accum=state, lr=rate, grad=-one, momentum=none, use_locking=True
        ),
        "momentum_of_rows": lambda: raw.ResourceSparseApplyMomentum(
            var=handle, accum=state, lr=rate, grad=-one, indices=rows, momentum=none, use_locking=True
        ),
    }


def lost(v: Any, pairs: Iterable[tuple[Update, Update]], times: int = TIMES) -> list[tuple[int, float]]:
    """Runs each pair on two threads each. The pairs, by number, after which the variable has not all updates."""
    out = []
    for number, pair in enumerate(pairs):
        for update in pair:
            update()  # compiled before the threads meet
        v.assign(v * 0)
        start = threading.Barrier(THREADS)

        def work(update: Update, start: threading.Barrier = start) -> None:
            start.wait()
            for _ in range(times):
                update()

        threads = [threading.Thread(target=work, args=(pair[k % 2],)) for k in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not (v.numpy() == THREADS * times).all():
            out.append((number, float(v.numpy().min())))
    return out


def all_pairs(dtype: str) -> None:
    import tensorflow as tf

    with tf.device("/HPU:0"):
        v, moment = tf.Variable(tf.zeros([4], dtype)), tf.Variable(tf.zeros([4], dtype))
        eager = updates(v, moment, tf.ones([4], dtype))
        forms = {**eager, **{f"{name} in a function": traced(update) for name, update in eager.items()}}
        names = some(list(itertools.combinations_with_replacement(forms, 2)), 5)
        wrong = lost(v, [(forms[a], forms[b]) for a, b in names])
        assert not wrong, [(names[number], value) for number, value in wrong]


def traced(update: Update) -> Update:
    import tensorflow as tf

    def without_result() -> None:
        update()

    function: Update = tf.function(without_result)
    return function


@pytest.mark.rest
@on_hpu
def test_of_float32_all_pairs_of_updates_count() -> None:
    all_pairs("float32")


@pytest.mark.part
@on_hpu
def test_of_float64_that_the_cpu_computes_all_pairs_of_updates_count() -> None:
    all_pairs("float64")


@on_hpu
def test_updates_in_a_map_of_several_threads_count() -> None:
    import tensorflow as tf

    v, moment = tf.Variable(tf.zeros([4])), tf.Variable(tf.zeros([4]))
    for name, update in updates(v, moment, tf.ones([4])).items():
        v.assign(tf.zeros([4]))

        def element(x: Any, update: Update = update) -> Any:
            update()
            return x

        data = tf.data.Dataset.range(60).map(element, num_parallel_calls=4)
        assert sum(1 for _ in data) == 60
        assert v.numpy().tolist() == [60.0] * 4, name


@on_hpu
def test_updates_in_functions_that_call_python_count() -> None:
    import tensorflow as tf

    def beside_python(update: Update) -> Update:
        def body() -> None:
            update()
            tf.numpy_function(lambda x: x, [tf.constant(1.0)], tf.float32)

        function: Update = tf.function(body)
        return function

    with tf.device("/HPU:0"):
        v, moment = tf.Variable(tf.zeros([4])), tf.Variable(tf.zeros([4]))
        eager = updates(v, moment, tf.ones([4]))
        names = ("scatter_add", "scatter_sub", "momentum")
        wrong = lost(v, [(beside_python(eager[name]), eager["assign_add"]) for name in names], 60)
        assert not wrong, [(names[number], value) for number, value in wrong]


@on_hpu
def test_updates_count_where_others_take_the_value_that_was_read() -> None:
    """Ops that HPU has not take the value from before an update of the same function, or the one behind it."""
    import tensorflow as tf

    with tf.device("/HPU:0"):
        v, moment = tf.Variable(tf.zeros([4])), tf.Variable(tf.zeros([4]))
        eager = updates(v, moment, tf.ones([4]))

        def read_before(update: Update) -> Update:
            def body() -> Any:
                old = v.read_value()
                update()
                return tf.strings.as_string(old)

            function: Update = tf.function(body)
            return function

        def read_behind(update: Update) -> Update:
            def body() -> Any:
                update()
                return tf.strings.as_string(v.read_value()), v * 2.0

            function: Update = tf.function(body)
            return function

        for form in (read_before, read_behind):
            wrong = lost(v, [(form(update), eager["scatter_nd_add"]) for update in eager.values()])
            assert not wrong, (form.__name__, [(list(eager)[number], value) for number, value in wrong])


@on_hpu
def test_products_and_extremes_from_threads_are_those_of_all_updates() -> None:
    import tensorflow as tf

    rows, values = tf.constant([0, 1], tf.int64), tf.constant([2.0, 0.5])
    products, least, greatest = (tf.Variable([1.0, 1.0]) for _ in range(3))
    start = threading.Barrier(THREADS)

    def work(k: int) -> None:
        start.wait()
        for i in range(TIMES):
            x = float(k * TIMES + i)
            products.scatter_mul(tf.IndexedSlices(values, rows))
            least.scatter_min(tf.IndexedSlices(tf.constant([-x, x]), rows))
            greatest.scatter_max(tf.IndexedSlices(tf.constant([x, -x]), rows))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = THREADS * TIMES
    assert products.numpy().tolist() == [2.0**count, 0.5**count]
    assert least.numpy().tolist() == [-(count - 1.0), 0.0]
    assert greatest.numpy().tolist() == [count - 1.0, 1.0]


@on_hpu
def test_draws_of_one_generator_from_threads_are_all_different() -> None:
    import tensorflow as tf

    generator = tf.random.Generator.from_seed(1)
    start, drawn = threading.Barrier(THREADS), []

    def work(k: int) -> None:
        start.wait()
        for _ in range(TIMES):
            if k % 2:
                drawn.append(generator.uniform_full_int([2], tf.uint64).numpy().tolist())
            else:
                generator.binomial([2], 10.0, 0.5)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with tf.device("/CPU:0"):
        stock = tf.random.Generator.from_seed(1)
        for k in range(THREADS):
            for _ in range(TIMES):
                if k % 2:
                    stock.uniform_full_int([2], tf.uint64)
                else:
                    stock.binomial([2], 10.0, 0.5)
    assert len({tuple(x) for x in drawn}) == len(drawn) == THREADS // 2 * TIMES
    np.testing.assert_array_equal(generator.state.numpy(), stock.state.numpy())
