from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.tensorflow.graph import conds_to_selects, frames
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import Item, build, inferred, inputs, read, run, v1, variable, view


def converted(make: Callable[[], object], cpu: tuple[str, ...] = (), preserve: tuple[str, ...] = ()) -> View:
    graph = build(make, cpu)
    v = view(graph, preserve)
    conds_to_selects.convert(v, frames.analyse(v), Shapes(Item(shapes=inferred(graph))))
    v.topological()
    return v


def ops(v: View) -> set[str]:
    return {n.op for n in v.alive()}


def keras_batch_norm() -> None:
    """Its moving mean: the new one if the batch is not empty."""
    x = v1.placeholder(tf.float32, (2,), "x")
    p = v1.placeholder(tf.bool, (), "p")
    handle = variable("v", (2,))
    first = read(handle, "first")
    mean = tf.add(x, first, name="mean")
    _, then_mean = tf.raw_ops.Switch(data=mean, pred=p, name="switch_mean")
    else_handle, _ = tf.raw_ops.Switch(data=handle, pred=p, name="switch_handle")
    off, on = tf.raw_ops.Switch(data=p, pred=p, name="switch_pred")
    pivot_t, pivot_f = tf.identity(on, "pivot_t"), tf.identity(off, "pivot_f")
    with tf.control_dependencies([pivot_t]):
        yes = tf.identity(then_mean, "yes")
    with tf.control_dependencies([pivot_f]):
        old = read(else_handle, "old")
    no = tf.identity(old, "no")
    with tf.control_dependencies([old]):
        done, _ = tf.raw_ops.Merge(inputs=[pivot_t, pivot_f], name="done")
    value, _ = tf.raw_ops.Merge(inputs=[yes, no], name="output")
    with tf.control_dependencies([first, done]):
        assign = tf.raw_ops.AssignVariableOp(resource=handle, value=value, name="assign")
    with tf.control_dependencies([assign]):
        tf.identity(value * 2.0, "last")


def test_keras_batch_norm_becomes_a_select() -> None:
    v = converted(keras_batch_norm)
    assert not ops(v) & {"Switch", "Merge"}
    assert v.by_name["output"].op == "SelectV2"
    assert inputs(v.by_name["output"]) == ["p", "yes", "no"]
    assert inputs(v.by_name["yes"]) == ["mean"]
    assert inputs(v.by_name["old"])[0] == "v"
    assert v.by_name["done"].op == "NoOp" and "^old" in inputs(v.by_name["done"])
    assert inputs(v.by_name["assign"]) == ["v", "output", "^done", "^first"]
    assert "pivot_t" not in v.by_name


@pytest.mark.parametrize("taken", [True, False])
def test_it_computes_the_same(taken: bool) -> None:
    graph = build(keras_batch_norm)
    after = graph.FromString(converted(keras_batch_norm).write())
    feed, values = {"x": [1.0, 2.0], "p": taken}, {"v": [5.0, 7.0]}
    (expected, variables), (got, after_variables) = (
        run(graph, ["last"], feed, values),
        run(after, ["last"], feed, values),
    )
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(after_variables["v"], variables["v"])


def cond(
    yes: Callable[[tf.Tensor], tf.Tensor], no: Callable[[tf.Tensor], tf.Tensor], shape: tuple[int | None, ...] = (2,)
) -> Callable[[], None]:
    def make() -> None:
        x = v1.placeholder(tf.float32, shape, "x")
        p = v1.placeholder(tf.bool, (), "p")
        tf.abs(v1.cond(p, lambda: yes(x), lambda: no(x), name="c"), name="last")

    return make


def test_cheap_branches_become_a_select() -> None:
    v = converted(cond(tf.abs, lambda x: x + 1.0))
    assert not ops(v) & {"Switch", "Merge"}


def test_other_shapes_effects_and_costly_ops_do_not() -> None:
    def assigns(x: tf.Tensor) -> tf.Tensor:
        handle = variable("v", (2,))
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=handle, value=x)]):
            return tf.identity(x)

    for yes in (
        lambda x: tf.concat([x, x], 0),
        assigns,
        lambda x: tf.reshape(tf.matmul(x[None], tf.ones((2, 2))), (2,)),
        lambda x: v1.while_loop(lambda y: tf.reduce_sum(y) < 9.0, lambda y: y + 1.0, [x]),
    ):
        assert "Merge" in ops(converted(cond(yes, tf.abs)))


def test_an_extent_without_a_name_is_no_shape() -> None:
    assert "Merge" in ops(converted(cond(tf.abs, tf.negative, (None,))))


def test_conds_on_the_cpu_stay() -> None:
    assert "Merge" in ops(converted(cond(tf.abs, tf.negative), cpu=("Merge",)))


def test_preserved_nodes_stay() -> None:
    assert "Merge" in ops(converted(cond(tf.abs, tf.negative), preserve=("c/Merge",)))


def test_a_used_merge_index_stays() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p = v1.placeholder(tf.bool, (), "p")
        a, b = tf.raw_ops.Switch(data=x, pred=p)
        _, which = tf.raw_ops.Merge(inputs=[tf.abs(a), tf.abs(b)], name="m")
        tf.abs(which, name="last")

    assert "Merge" in ops(converted(make))


def test_inner_conds_go_first_and_alone_if_the_outer_cannot() -> None:
    def nested(outer: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[], None]:
        def make() -> None:
            x = v1.placeholder(tf.float32, (2,), "x")
            p, q = v1.placeholder(tf.bool, (), "p"), v1.placeholder(tf.bool, (), "q")
            inner = lambda: v1.cond(q, lambda: tf.abs(x), lambda: tf.tanh(x), name="inner")
            tf.abs(v1.cond(p, inner, lambda: outer(x), name="outer"), name="last")

        return make

    assert not ops(converted(nested(tf.negative))) & {"Switch", "Merge"}
    v = converted(nested(lambda x: tf.concat([x, x], 0)[:2]))
    assert [n.name for n in v.alive() if n.op == "Merge"] == ["outer/Merge"]
    assert v.by_name["outer/inner/Merge"].op == "SelectV2"


def test_elementwise_branches_become_selects_where_they_cannot_fail() -> None:
    def integers(fn: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[], None]:
        def make() -> None:
            n = v1.placeholder(tf.int64, (2,), "n")
            p = v1.placeholder(tf.bool, (), "p")
            tf.abs(v1.cond(p, lambda: fn(n), lambda: n, name="c"), name="last")

        return make

    for yes in (tf.cos, tf.floor, tf.math.lgamma, lambda x: x**2.5, lambda x: x // 3.0, lambda x: x % 3.0):
        assert not ops(converted(cond(yes, tf.abs))) & {"Switch", "Merge"}
    assert "Merge" not in ops(converted(integers(lambda n: n * 3 - 1)))
    for fails_on_zero in (lambda n: 7 // n, lambda n: 7 % n, lambda n: 2**n, lambda n: tf.truncatediv(n, n)):
        assert "Merge" in ops(converted(integers(fails_on_zero)))


Write = Callable[[tf.Tensor, tf.Tensor], object]


def writing(
    write: Write,
    other: Write | None = None,
    shape: tuple[int, ...] = (2,),
    reads_before: bool = True,
) -> Callable[[], None]:
    """A cond whose branches write the variable v of x's shape, read before and behind it."""

    def make() -> None:
        x = v1.placeholder(tf.float32, shape, "x")
        p = v1.placeholder(tf.bool, (), "p")
        handle = variable("v", shape)

        def branch(fn: Write) -> Callable[[], tf.Tensor]:
            def inside() -> tf.Tensor:
                with tf.control_dependencies([fn(handle, x)]):
                    return tf.identity(x)

            return inside

        first = read(handle, "first") if reads_before else x
        with tf.control_dependencies([first]):
            done = v1.cond(p, branch(write), branch(other or (lambda h, x: tf.no_op())), name="c")
        with tf.control_dependencies([done]):
            last = read(handle, "behind")
        tf.add(first, last, name="last")

    return make


def assign(handle: tf.Tensor, x: tf.Tensor) -> object:
    return tf.raw_ops.AssignVariableOp(resource=handle, value=x * 3.0)


def assign_add(handle: tf.Tensor, x: tf.Tensor) -> object:
    return tf.raw_ops.AssignAddVariableOp(resource=handle, value=x)


def assign_sub(handle: tf.Tensor, x: tf.Tensor) -> object:
    return tf.raw_ops.AssignSubVariableOp(resource=handle, value=x)


def assign_twice(handle: tf.Tensor, x: tf.Tensor) -> object:
    with tf.control_dependencies([assign(handle, x)]):
        again = read(handle, "again")
    return tf.raw_ops.AssignVariableOp(resource=handle, value=again * again)


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("other", [None, assign, assign_sub])
@pytest.mark.parametrize("write", [assign, assign_add, assign_sub, assign_twice])
def test_what_a_branch_writes_is_written_as_before(write: Write, other: Write | None, taken: bool) -> None:
    make = writing(write, other)
    graph = build(make)
    v = converted(make)
    assert not ops(v) & {"Switch", "Merge"}
    after = graph.FromString(v.write())
    feed, values = {"x": [1.0, -2.0], "p": taken}, {"v": [5.0, float("nan")]}
    (expected, variables), (got, after_variables) = (
        run(graph, ["last"], feed, values),
        run(after, ["last"], feed, values),
    )
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(after_variables["v"], variables["v"])


def test_a_write_stays_in_its_branch_if_it_may_be_the_first() -> None:
    assert "Merge" in ops(converted(writing(assign, reads_before=False)))
    assert "Merge" not in ops(converted(writing(assign_add, reads_before=False)))


@pytest.mark.parametrize("asks", [True, False])
def test_a_read_stays_in_its_branch_if_there_may_be_nothing_to_read(asks: bool) -> None:
    def make() -> None:
        handle = variable("v", (2,))
        p = tf.raw_ops.VarIsInitializedOp(resource=handle) if asks else v1.placeholder(tf.bool, (), "p")
        _, there = tf.raw_ops.Switch(data=handle, pred=p)
        other, _ = tf.raw_ops.Switch(data=tf.ones(2), pred=p)
        value, _ = tf.raw_ops.Merge(inputs=[other, read(there, "value")])
        tf.identity(value, "last")

    assert ("Merge" in ops(converted(make))) == asks


def test_writes_of_large_variables_and_in_loops_stay() -> None:
    assert "Merge" in ops(converted(writing(assign, shape=(conds_to_selects.SMALL + 1,))))

    def loop() -> None:
        handle = variable("v")
        first = read(handle, "first")

        def body(n: tf.Tensor) -> tf.Tensor:
            def inside() -> tf.Tensor:
                with tf.control_dependencies([assign(handle, n)]):
                    return tf.identity(n)

            with tf.control_dependencies([v1.cond(n > 2.0, inside, lambda: n, name="c")]):
                return n + 1.0

        v1.while_loop(lambda n: n < 5.0, body, [first])

    assert "c/Merge" in {n.name.split("while/")[-1] for n in converted(loop).alive()}
