"""Variables that a launch updates where they are: the numbers are those of the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.child import on_hpu
from tests.effort import THOROUGH
from tests.tensorflow.graph.updating import ROW, SQUARE, X, compare


def assigned(variable: tf.Variable, value: Any) -> None:
    variable.assign(value)


def momentum(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    w, m = v
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
    m.assign(0.9 * m + tape.gradient(loss, w))
    w.assign_sub(0.1 * m)
    return loss


def both_ways(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    a, b = v
    old = tf.identity(a)
    a.assign(-b)
    b.assign(-old)
    return tf.reduce_sum(x)


def old_and_new(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    old = v[0] * 2.0
    v[0].assign(v[0] * 0.5 + x)
    return old, tf.reduce_sum(old), v[0] * 2.0, v[0].read_value()


def twice(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    v[0].assign_add(x)
    y = v[0] @ x
    v[0].assign(y * 0.1)
    return y


def by_rows(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    seen = tf.gather(v[0], [4, 1])
    v[0].scatter_sub(tf.IndexedSlices(x[:3], [1, 4, 1]))
    return seen, tf.gather(v[0], [1, 0])


def sums(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    v[0].assign(v[0] - tf.reduce_mean(v[0], axis=1, keepdims=True) + x)
    v[1].assign(v[1] / tf.reduce_sum(tf.abs(v[1])) + tf.reduce_sum(v[0], 0))
    return tf.reduce_sum(v[1])


def powers(x: tf.Tensor, v: list[tf.Variable]) -> Any:
    """Calls of functions between the stores: what was loaded before must not be loaded again behind them."""
    w, n, z = v
    new = n + tf.pow(x, 2.0)
    z.assign_add(x - (tf.pow(new, 0.5) - tf.pow(n, 0.5)) / 0.1 * w)
    w.assign((tf.clip_by_value(z, -0.1, 0.1) - z) / tf.pow(new, 0.5))
    n.assign(new)
    return []  # with something to return there are two kernels


@on_hpu
def test_the_numbers_are_those_of_the_cpu() -> None:
    compare(momentum, [SQUARE, SQUARE], 2)
    compare(old_and_new, [SQUARE], 1)
    compare(powers, [SQUARE, np.abs(SQUARE), SQUARE], 3)
    compare(lambda x, v: (tf.identity(v[0]), v[0].assign(v[0] * 2.0)), [SQUARE], 0)  # the old value itself leaves
    compare(sums, [SQUARE, ROW], 2)
    compare(by_rows, [SQUARE], 1)


@on_hpu
def test_what_reads_elsewhere_than_it_writes_reads_the_old_value() -> None:
    """Some cannot be done where the variable is: their results go to other memory first."""
    moves: list[Callable[[Any], Any]] = [
        tf.transpose, lambda v: tf.reverse(v, [0]), lambda v: tf.roll(v, 1, 1), lambda v: tf.concat([v[1:], v[:1]], 0),
        lambda v: tf.gather(v, [5, 4, 3, 2, 1, 0]),
    ]  # fmt: skip
    more: list[Callable[[Any], Any]] = [
        lambda v: tf.cumsum(v, 0), lambda v: tf.sort(v, 1), lambda v: v @ v * 0.1,
        lambda v: tf.where(v > tf.transpose(v), v, 0.5), lambda v: v - tf.reduce_max(v),
        lambda v: tf.roll(v, 1, 1) * 0.5,
    ]  # fmt: skip
    for many, updates in enumerate((moves, more)):
        for update in updates:
            compare(
                lambda x, v, update=update: assigned(v[0], update(v[0])) or update(x), [SQUARE], many
            )  # fmt: skip
    compare(both_ways, [SQUARE, X], 2)


@on_hpu
def test_what_is_stored_behind_the_new_value_is_made_of_the_old_one() -> None:
    """Also where the new value is not made of it, and it is first needed then."""

    def difference(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        away = v[0] - x
        v[0].assign(tf.tanh(x))
        return away

    def resilient(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        w, last, step = v
        g = tf.sin(w + x)
        step.assign(tf.where(g * last > 0, step * 1.2, step * 0.5))
        last.assign(g)
        w.assign_sub(tf.sign(g) * step)
        return []

    def product(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        old = tf.identity(v[0])
        v[0].assign(tf.matmul(x, tf.tanh(x), transpose_a=True) * 0.1)
        return old - 0.1 * x[0, 0]

    numbers = np.random.default_rng(3)
    for shape in ((8, 1), (6, 6), (17, 33), (300, 257)):
        x, a, b, c = numbers.normal(size=(4, *shape)).astype("f4")
        compare(difference, [a], 1, x)
        compare(both_ways, [a, b], 2, x)
        compare(resilient, [a, b, np.abs(c) * 0.01], 3, x)
        compare(product, [np.resize(a, (shape[1], shape[1]))], 1, x)


@pytest.mark.part
@on_hpu
def test_random_steps() -> None:
    """Some assignments in a row, of expressions of the variables as they are then, as they were, and of the input."""
    olds = st.tuples(st.just("before"), st.integers(0, 2))
    leaves = olds | st.tuples(st.just("now"), st.integers(0, 2)) | st.just(("x", 0))
    unary = {
        "tanh": tf.tanh, "neg": tf.negative, "half": lambda a: a * 0.5, "transposed": tf.transpose,
        "rolled": lambda a: tf.roll(a, 1, 0), "centred": lambda a: a - tf.reduce_mean(a, 1, keepdims=True),
        "total": lambda a: a * 0.0 + tf.tanh(tf.reduce_mean(a)),
    }  # fmt: skip
    binary = {
        "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "matmul": lambda a, b: tf.tanh(a @ b * 0.1),
        # Not `a > b`: of numbers that were centred before, and so differ by nothing, roundings would decide.
        "where": lambda a, b: tf.where(a > b + 0.0137, b, a * 0.3),
    }  # fmt: skip
    expressions = st.recursive(
        leaves,
        lambda inner: (
            st.tuples(st.sampled_from(sorted(unary)), inner) | st.tuples(st.sampled_from(sorted(binary)), inner, inner)
        ),
        max_leaves=4,
    )

    def value(e: Any, x: tf.Tensor, v: list[tf.Variable], before: list[tf.Tensor]) -> tf.Tensor:
        if e[0] in ("now", "before", "x"):
            return {"now": lambda: tf.identity(v[e[1]]), "before": lambda: before[e[1]], "x": lambda: x}[e[0]]()
        made = unary.get(e[0]) or binary[e[0]]
        return made(*(value(inner, x, v, before) for inner in e[1:]))

    @settings(max_examples=60 if THOROUGH else 20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.tuples(st.integers(0, 2), expressions), min_size=1, max_size=4),
        st.lists(expressions | st.tuples(st.just("sub"), olds, leaves), max_size=2),
        st.sampled_from([1, 5, 19]),
    )
    def check(assignments: Any, results: Any, side: int) -> None:
        def step(x: tf.Tensor, v: list[tf.Variable]) -> Any:
            before = [tf.identity(each) for each in v]
            for target, e in assignments:
                v[target].assign(tf.clip_by_value(value(e, x, v, before), -4.0, 4.0))
            return [value(e, x, v, before) for e in results]

        x, *values = np.random.default_rng(side).normal(size=(4, side, side)).astype("f4")
        compare(step, values, None, x)

    check()


@on_hpu
def test_a_variable_with_more_than_one_update_or_in_a_branch_or_loop() -> None:
    def branch(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        tf.cond(tf.reduce_sum(x) > 0, lambda: v[0].assign_add(x @ x), lambda: v[0].assign_sub(tf.nn.softmax(x)))
        return v[0] + 1.0

    def loop(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        def body(i: tf.Tensor) -> tf.Tensor:
            v[0].assign(tf.tanh(v[0] @ x))
            return i + 1

        tf.while_loop(lambda i: i < 3, body, (0,))
        return x * 2.0

    def loop_and_more(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        loop(x, v)
        return v[0] * 2.0

    def called(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        inner = tf.function(lambda y: v[0].assign_add(y) * 2.0)
        v[0].assign_add(x)
        return inner(x) + v[0]

    def seldom(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        y = tf.tanh(x @ v[1])
        tf.cond(y[0, 0] > 0, lambda: v[0].assign(tf.sort(v[0] @ y * 0.1)), lambda: v[0])
        return y

    for step, many in ((twice, 1), (branch, 0), (called, 1), (loop, 1), (loop_and_more, 1), (seldom, 1)):
        compare(step, [SQUARE, X], many)


@on_hpu
def test_what_python_assigns_between_a_read_and_an_update_is_there() -> None:
    def step(x: tf.Tensor, v: list[tf.Variable]) -> Any:
        seen = []
        old, other = v[0].read_value(), v[1].read_value()
        with tf.control_dependencies([old, other]):
            done = tf.py_function(lambda: [u.assign(u * 2.0)[0, 0] for u in v], [], [tf.float32] * 2)
        with tf.control_dependencies(done):
            v[0].assign_add(x)
            v[1].assign(other * 0.5 + x)
            seen = [v[0].read_value(), v[1] + 1.0]
        return [old, other, *seen]

    compare(step, [SQUARE, X], 1)


@on_hpu
def test_a_variable_that_is_changed_as_a_whole_and_then_by_rows() -> None:
    """An embedding's moment under Keras' Adam: only its last value is assigned."""

    def step(times: int, x: tf.Tensor, v: list[tf.Variable]) -> tf.Tensor:
        for _ in range(times):
            v[0].assign_add(-0.1 * v[0])
            v[0].scatter_add(tf.IndexedSlices(x[:2], tf.constant([3, 3])))
        return tf.reduce_sum(v[0])

    def copied(x: tf.Tensor, v: list[tf.Variable]) -> tf.Tensor:
        v[0].assign_add(x)
        v[1].assign(v[0])
        v[0].assign(v[0] * 2.0)
        return v[0].read_value()

    for times in (1, 2, 3):
        compare(functools.partial(step, times), [SQUARE], 1)
    compare(copied, [SQUARE, X], None)


@on_hpu
def test_branches_behind_branches_on_one_predicate() -> None:
    """The last update's handle waits for the first: behind the launch that makes both."""
    from habana_tf._native import _bridge

    before = _bridge.counters()["optimize_errors"]
    for counts in ([(1, 0), (0, 3)], [(1, 1), (0, 3)], [(3, 0), (0, 3)], [(1, 0), (0, 3), (3, 0)]):
        v = tf.Variable([0.0, 0.0])

        def update(count: int, v: tf.Variable = v) -> tf.Tensor:
            for _ in range(count):
                v.assign_add([1.0, 2.0])
            return tf.constant(0)

        @tf.function
        def step(chosen: tf.Tensor, counts: Any = counts, update: Any = update) -> None:
            for yes, no in counts:
                tf.cond(chosen, lambda n=yes: update(n), lambda n=no: update(n))

        want = 0
        for chosen in (True, False, True):
            step(tf.constant(chosen))
            want += sum(yes if chosen else no for yes, no in counts)
            assert v.numpy().tolist() == [want, 2 * want], (counts, chosen)
    assert _bridge.counters()["optimize_errors"] == before
