from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from habana_tf.tensorflow.graph import ops, partition
from habana_tf.tensorflow.graph.reasons import Reason
from tests.tensorflow.graph.harness import build, prepared, v1


def grown(make: Callable[[], object], cpu: tuple[str, ...] = ()) -> list[list[str]]:
    v, f, placed = prepared(build(make, cpu))
    return [[n.name for n in g.nodes] for g in partition.grow(v, f, placed)]


def x(name: str = "x") -> tf.Tensor:
    return v1.placeholder(tf.float32, (2, 2), name)


def test_unconnected_parts_are_one_group() -> None:
    def make() -> None:
        tf.abs(x(), name="a")
        tf.tanh(x("y"), name="b")

    assert grown(make) == [["a", "b"]]


def test_a_path_over_the_cpu_cuts() -> None:
    def make() -> None:
        a = tf.abs(x(), name="a")
        b = tf.tanh(a, name="cpu")
        tf.abs(b, name="b")
        tf.abs(a, name="aside")

    # `aside` could run with `a`, but nothing before the cut needs it
    assert grown(make, cpu=("cpu",)) == [["a"], ["aside", "b"]]


def test_a_control_path_cuts_too() -> None:
    def make() -> None:
        a = tf.abs(x(), name="a")
        with tf.control_dependencies([v1.py_func(lambda v: v, [a], tf.float32, name="cpu")]):
            tf.abs(x("y"), name="b")

    assert grown(make) == [["a"], ["b"]]


def test_what_decides_a_size_is_launched_before_what_has_it() -> None:
    def make() -> None:
        width = tf.reshape(tf.cast(tf.reduce_max(x()), tf.int32), [1], name="width")
        tf.tanh(tf.raw_ops.Fill(dims=width, value=1.0, name="line"), name="after")

    groups = grown(make)
    assert [sum(name in group for group in groups) for name in ("width", "line", "after")] == [1, 1, 1]
    (made,) = (k for k, group in enumerate(groups) if "width" in group)
    (used,) = (k for k, group in enumerate(groups) if "line" in group)
    assert made < used


def test_as_few_groups_as_the_longest_alternation() -> None:
    def make() -> None:
        y = x()
        for k in range(3):
            y = tf.abs(tf.tanh(y, name=f"cpu{k}"), name=f"h{k}")
            for j in range(4):
                tf.abs(y + float(j))

    assert len(grown(make, cpu=("cpu0", "cpu1", "cpu2"))) == 3


def test_branches_and_loops_are_apart() -> None:
    def make() -> None:
        y, p = x(), v1.placeholder(tf.bool, (), "p")
        c = v1.cond(p, lambda: tf.tanh(tf.matmul(y, y)), lambda: tf.abs(tf.concat([y, y], 0)), name="c")
        _, w = v1.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(z) * 2.0), [0, y], name="w")
        tf.abs(tf.reduce_sum(c) + w, name="last")

    v, f, placed = prepared(build(make))
    got = partition.grow(v, f, placed)
    for group in got:
        assert len({f.classes[n] for n in group.nodes}) == 1
    names = [{n.name for n in g.nodes} for g in got]
    assert {"c/MatMul", "c/Tanh"} in names and {"w/Identity_1", "w/Tanh", "w/mul"} in names
    assert any({"last", "Sum"} <= group for group in names)


def test_what_a_loop_reads_in_every_iteration_is_before_what_follows_it() -> None:
    def make() -> None:
        used, y = tf.tanh(x("y"), name="before"), x()
        _, w = v1.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(z) + used), [0, y], name="w")
        tf.abs(w, name="after")

    groups = grown(make)  # no path but the loop's back edge leads from one to the other
    assert not any({"before", "after"} <= set(group) for group in groups)
    names = [next(k for k, g in enumerate(groups) if n in g) for n in ("before", "w/Tanh", "after")]
    assert names == [0, 1, 2]


def test_a_loop_counter_is_no_launch() -> None:
    def make() -> None:
        v1.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="w")

    assert grown(make) == []


def test_masks_are_a_launch() -> None:
    def make() -> None:
        mask = v1.placeholder(tf.bool, (64, 64), "mask")
        tf.abs(x(), name="cpu")
        tf.logical_not(tf.logical_or(mask, tf.transpose(mask, name="t"), name="or"), name="not")

    assert {"or", "not"} <= {name for group in grown(make, cpu=("cpu",)) for name in group}


def test_views_and_constants_alone_are_no_launch() -> None:
    def make() -> None:
        tf.identity(tf.reshape(x(), (4,)), name="y")

    v, f, placed = prepared(build(make))
    assert partition.grow(v, f, placed) == []
    assert placed.reasons[v.by_name["Reshape"]] is Reason.TRIVIAL


def test_a_predicate_from_the_host_for_the_host_goes_there() -> None:
    def make() -> None:
        flag = v1.placeholder(tf.bool, (), "flag")
        n = tf.reduce_sum(tf.expand_dims(tf.cast(flag, tf.int64), 0), name="n")
        p = tf.greater(n, tf.constant(0, tf.int64, name="zero"), name="p")
        a, _ = tf.raw_ops.Switch(data=x(), pred=p, name="s")
        tf.abs(a, name="y")

    v, f, placed = prepared(build(make, cpu=("flag", "Switch")))
    groups = partition.grow(v, f, placed)
    assert [[n.name for n in g.nodes] for g in groups] == [["y"]]
    assert {ops.device_type(v.by_name[n].device) for n in ("Cast", "n", "p", "zero")} == {"CPU"}
    assert placed.reasons[v.by_name["p"]] is Reason.FOR_THE_HOST


def test_copies_at_the_rim_stay_outside() -> None:
    def make() -> None:
        y = tf.abs(tf.identity(x(), "before"), name="y")
        with tf.control_dependencies([v1.py_func(lambda v: v, [y], tf.float32, name="cpu")]):
            tf.identity(y, "after")
            tf.no_op("done")

    assert grown(make) == [["before", "y"]]  # `before` is read inside; the launch reads through it


def test_a_noop_between_members_vanishes_with_them() -> None:
    def make() -> None:
        a, b, z = tf.abs(x(), name="a"), tf.abs(x("y"), name="b"), x("z")
        with tf.control_dependencies([tf.group(a, b, name="both")]):
            tf.abs(z, name="c")

    assert grown(make) == [["a", "b", "both", "c"]]


def test_a_noop_between_ops_of_the_host_stays_where_it_is() -> None:
    def make() -> None:
        with tf.control_dependencies([tf.no_op("first")]), tf.control_dependencies([tf.no_op("between")]):
            tf.no_op("cpu")

    v, f, placed = prepared(build(make, cpu=("cpu",)))
    assert partition.grow(v, f, placed) == [] and placed.moved == 0  # a second pass finds nothing to do
