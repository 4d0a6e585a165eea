from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from habana_tf.tensorflow.graph import placement, variables
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import build, inputs, prepared, read, v1, variable


def converted(make: Callable[[], object], preserve: tuple[str, ...] = ()) -> tuple[View, placement.Placement]:
    v, f, placed = prepared(build(make), preserve)
    variables.convert(v, f, placed)
    v.topological()
    return v, placed


def add(handle: tf.Tensor, value: tf.Tensor, name: str) -> tf.Operation:
    return tf.raw_ops.AssignAddVariableOp(resource=handle, value=value, name=name)


def start() -> tuple[tf.Tensor, tf.Tensor]:
    return v1.placeholder(tf.float32, (2,), "x"), variable("v", (2,))


def test_an_update_is_a_read_an_op_and_an_assignment_under_its_name() -> None:
    def make() -> None:
        x, handle = start()
        with tf.control_dependencies([tf.abs(x, name="first")]):
            add(handle, x, "u")

    v, placed = converted(make)
    assert v.by_name["u"].op == "AssignVariableOp"
    assert inputs(v.by_name["u"]) == ["v", "u/compute", "^first"]
    inner = v.by_name["u/compute"]
    assert inner.virtual and inner.op == "AssignAddVariableOp" and placed.takes(inner)
    assert inputs(inner) == ["u/read", "x"]
    assert inputs(v.by_name["u/read"]) == ["v"]


def test_a_read_after_a_write_is_the_value_written() -> None:
    def make() -> None:
        x, handle = start()
        old = read(handle, "old")
        with tf.control_dependencies([old]):
            u = add(handle, x, "u")
        with tf.control_dependencies([u]):
            new = read(handle, "new")
        v1.py_func(lambda a: a, [new * old], tf.float32, name="seen")

    v, _ = converted(make)
    assert "new" not in v.by_name
    assert inputs(v.by_name["mul"]) == ["u/compute", "old"]
    assert inputs(v.by_name["u/compute"]) == ["old", "x"]
    assert inputs(v.by_name["seen"]) == ["mul", "^u"]  # the debt of everything on the way


def test_reads_before_any_write_are_one() -> None:
    def make() -> None:
        _x, handle = start()
        a, b = read(handle, "a"), read(handle, "b")
        tf.add(a, b, name="sum")

    v, _ = converted(make)
    assert inputs(v.by_name["sum"]) == ["a", "a"] and "b" not in v.by_name
    v, _ = converted(make, preserve=("b",))
    assert inputs(v.by_name["sum"]) == ["a", "a"]
    assert v.by_name["b"].op == "NoOp" and inputs(v.by_name["b"]) == ["^a"]


def test_updates_in_a_row_pass_the_value_on() -> None:
    def make() -> None:
        x, handle = start()
        u = add(handle, x, "u")
        with tf.control_dependencies([u]):
            add(handle, x, "w")

    v, _ = converted(make)
    assert inputs(v.by_name["w/compute"]) == ["u/compute", "x"]
    assert inputs(v.by_name["w"]) == ["v", "w/compute", "^u/compute"] and "u" not in v.by_name


def test_unordered_updates_both_happen() -> None:
    def make() -> None:
        x, handle = start()
        add(handle, x, "u")
        add(handle, x, "w")

    v, _ = converted(make)
    assert inputs(v.by_name["w/compute"]) == ["u/compute", "x"]
    assert "^u/compute" in inputs(v.by_name["w"]) and "u" not in v.by_name


def test_a_read_after_an_op_that_cannot_be_taken_reads_the_memory() -> None:
    def make() -> None:
        x, handle = start()
        u = add(handle, x, "u")
        with tf.control_dependencies([u]):
            other = v1.py_func(lambda a: a, [x], tf.float32, name="python")
        with tf.control_dependencies([other]):
            new = read(handle, "new")
        with tf.control_dependencies([new]):
            add(handle, new, "w")

    v, _ = converted(make)
    assert inputs(v.by_name["python"]) == ["x", "^u"]
    assert inputs(v.by_name["new"]) == ["v", "^python"]
    assert inputs(v.by_name["w/compute"]) == ["w/read", "new"]
    assert set(inputs(v.by_name["w/read"])) >= {"v", "^new"}


def test_a_value_that_was_assigned_is_what_is_read() -> None:
    def make() -> None:
        x, handle = start()
        a = tf.raw_ops.AssignVariableOp(resource=handle, value=x, name="a")
        with tf.control_dependencies([a]):
            tf.abs(read(handle, "new"), name="y")

    v, _ = converted(make)
    assert inputs(v.by_name["y"]) == ["x"]


def test_other_variables_do_not_wait_but_what_follows_does() -> None:
    def make() -> None:
        x, handle = start()
        other = variable("w", (2,))
        u = add(handle, x, "u")
        with tf.control_dependencies([u]):
            y = tf.abs(read(other, "r"), name="y")
        v1.py_func(lambda a: a, [y], tf.float32, name="seen")

    v, _ = converted(make)
    assert inputs(v.by_name["r"]) == ["w"]
    assert inputs(v.by_name["seen"]) == ["y", "^u"]


def test_many_debts_are_one_junction() -> None:
    def make() -> None:
        x, _ = start()
        updates = [add(variable(f"v{k}", (2,)), x, f"u{k}") for k in range(6)]
        with tf.control_dependencies(updates):
            y = tf.abs(x, name="y")
        for name in ("seen", "seen2"):
            v1.py_func(lambda a: a, [y], tf.float32, name=name)

    v, _ = converted(make)
    junction = v.by_name["seen"].controls[0]
    assert junction.op == "NoOp" and {n.name for n in junction.controls} == {f"u{k}" for k in range(6)}
    assert v.by_name["seen2"].controls == [junction]


def test_ops_that_only_read_take_the_value() -> None:
    def make() -> None:
        _x, _ = start()
        handle = variable("t", (5, 2))
        tf.abs(tf.raw_ops.ResourceGather(resource=handle, indices=[1, 2], dtype=tf.float32, name="g"), name="y")

    v, _ = converted(make)
    assert "g" not in v.by_name
    assert inputs(v.by_name["g/compute"])[0] == "g/read" and inputs(v.by_name["y"]) == ["g/compute"]


def test_an_op_on_several_variables_assigns_each() -> None:
    def make() -> None:
        x, handle = start()
        m, a = variable("m", (2,)), variable("a", (2,))
        tf.raw_ops.ResourceApplyAdam(
            var=handle, m=m, v=a, beta1_power=0.9, beta2_power=0.9, lr=0.1, beta1=0.9, beta2=0.9, epsilon=1e-3, grad=x,
            name="u",
        )  # fmt: skip

    v, _ = converted(make)
    assigns = {inputs(n)[0]: inputs(n)[1] for n in v.alive() if n.op == "AssignVariableOp"}
    assert assigns == {"v": "u/compute", "m": "u/compute:1", "a": "u/compute:2"}
    assert {"^u/m", "^u/v"} <= set(inputs(v.by_name["u"]))


def test_a_handle_of_unknown_origin_is_left_alone() -> None:
    def make() -> None:
        x, handle = start()
        p = v1.placeholder(tf.bool, (), "p")
        a, _ = tf.raw_ops.Switch(data=handle, pred=p)
        _, b = tf.raw_ops.Switch(data=variable("w", (2,)), pred=p)
        merged, _ = tf.raw_ops.Merge(inputs=[a, b])
        u = add(merged, x, "u")
        with tf.control_dependencies([u]):
            read(handle, "new")

    v, placed = converted(make)
    assert v.by_name["u"].op == "AssignAddVariableOp"
    assert placed.reasons[v.by_name["u"]] is Reason.ORDER
    assert inputs(v.by_name["new"]) == ["v", "^u"]


def test_inside_a_branch_everything_stays_in_the_branch() -> None:
    def make() -> None:
        x, handle = start()
        p = v1.placeholder(tf.bool, (), "p")

        def yes() -> tf.Tensor:
            u = add(handle, x, "u")
            with tf.control_dependencies([u]):
                return read(handle, "new")

        y = v1.cond(p, yes, lambda: x, name="c")
        with tf.control_dependencies([y]):
            tf.abs(read(handle, "after"), name="last")

    from habana_tf.tensorflow.graph import frames

    v, _ = converted(make)
    inner = v.by_name["c/u/compute"]
    after = frames.analyse(v)
    assert inputs(v.by_name["after"])[1:] == ["^c/Merge"]
    assert after.classes[inner] == after.classes[v.by_name["c/u"]] != frames.ROOT


def test_who_takes_the_results_of_an_update_waits_for_its_assignment() -> None:
    def make() -> None:
        p = v1.placeholder(tf.bool, (), "p")
        state = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=(3,), shared_name="s", name="s")

        def yes() -> tf.Tensor:
            old = tf.raw_ops.RngReadAndSkip(resource=state, alg=1, delta=tf.constant(1, tf.uint64), name="u")
            with tf.control_dependencies([tf.raw_ops.Assert(condition=old[0] >= 0, data=[old], name="seen")]):
                return tf.identity(old)

        v1.cond(p, yes, lambda: tf.zeros(3, tf.int64), name="c")

    v, _ = converted(make)
    assert v.by_name["c/u"].op == "AssignVariableOp"
    assert "^c/u" in inputs(v.by_name["c/seen"])


def test_a_read_behind_a_loop_sees_what_the_loop_wrote() -> None:
    def make() -> None:
        x, handle = start()
        old = read(handle, "old")

        def body(i: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([add(handle, x, "u")]):
                return i + 1

        with tf.control_dependencies([old]):
            last = v1.while_loop(lambda i: i < 3, body, [0], name="w")
        with tf.control_dependencies([last]):
            new = read(handle, "new")
        tf.subtract(new, old, name="y")

    v, _ = converted(make)
    assert inputs(v.by_name["y"]) == ["new", "old"]
    assert inputs(v.by_name["new"]) == ["v", "^w/Exit"]
