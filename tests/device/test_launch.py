"""Launches: one resolution per signature, then native."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.child import on_hpu
from tests.device.launching import F32, I32, counters, doubled, f32, launch, make_cluster, program, programs, unaligned


@on_hpu
def test_a_launch_runs_its_program_on_the_card() -> None:
    import tensorflow as tf

    with programs(lambda c, s: program([(F32, [3])], doubled)):
        (y,) = launch(make_cluster(["x"], name="double"), [tf.constant([1.0, 2.0, 3.0])])
    assert y.device.endswith("HPU:0")
    assert y.numpy().tolist() == [2.0, 4.0, 6.0]


@on_hpu
def test_a_signature_is_resolved_once_and_shapes_are_part_of_it() -> None:
    import tensorflow as tf

    seen = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        seen.append(signature)
        return program([(F32, signature[0][1])], doubled)

    cluster = make_cluster(["x"], name="by shape")
    with programs(resolve):
        for n in (2, 3, 2, 3, 2):
            (y,) = launch(cluster, [tf.ones([n])])
            assert y.numpy().tolist() == [2.0] * n
    assert seen == [[(F32, (2,), None)], [(F32, (3,), None)]]


@on_hpu
def test_values_are_part_of_the_signature_only_where_they_fix_a_shape() -> None:
    import tensorflow as tf

    seen = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        seen.append(signature[1][2])
        n = int(np.frombuffer(signature[1][2], np.int32)[0])

        def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
            f32(outs[0])[:] = f32(ins[0])[0]

        return program([(F32, [n])], body)

    cluster = make_cluster(["value", "dims"], fixed=[1], name="by value")
    with programs(resolve, fixed=[1]):
        for value, n in ((1.0, 2), (5.0, 2), (1.0, 3)):
            (y,) = launch(cluster, [tf.constant([value])], [tf.constant([n])])
            assert y.numpy().tolist() == [value] * n
    assert seen == [np.int32([2]).tobytes(), np.int32([3]).tobytes()]


@on_hpu
def test_host_results_arrive_in_host_memory() -> None:
    import tensorflow as tf

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        f32(outs[0])[:] = 1
        np.frombuffer(outs[1], np.int32)[:] = 7

    with programs(lambda c, s: program([(F32, [2]), (I32, [2])], body)):
        device, host = launch(make_cluster(["x"], name="host"), [tf.ones([2])], host_out=[I32])
    assert device.numpy().tolist() == [1.0, 1.0]
    assert host.numpy().tolist() == [7, 7]


@on_hpu
def test_empty_tensors_are_fine() -> None:
    import tensorflow as tf

    with programs(lambda c, s: program([(F32, [0, 4])], doubled)):
        (y,) = launch(make_cluster(["x"], name="empty"), [tf.ones([0, 4])])
    assert y.shape == [0, 4]


@on_hpu
def test_unaligned_inputs_are_copied_before_generated_code_sees_them() -> None:
    import tensorflow as tf

    seen = []

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        seen.append(f32(ins[0]).__array_interface__["data"][0] % 64)
        f32(outs[0])[:] = np.frombuffer(ins[1], np.int32)

    cluster = make_cluster(["x", "indices"], fixed=[1], name="unaligned")
    before = counters()["unaligned_copies"]
    with programs(lambda c, s: program([(F32, [5])], body)):
        (y,) = launch(cluster, [tf.ones([2])], [unaligned(np.arange(5, dtype=np.int32))])
    assert y.numpy().tolist() == [0, 1, 2, 3, 4]
    assert seen == [0]
    assert counters()["unaligned_copies"] == before + 1


@on_hpu
def test_random_state_lives_in_the_kernel_and_moves_on_by_what_is_reserved() -> None:
    import tensorflow as tf

    states_seen = []

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        states_seen.append(np.frombuffer(states[0], np.uint32).tolist())

    cluster = make_cluster(["x"], outputs=0, name="random")
    x = tf.ones([1])
    with programs(lambda c, s: program([], body, [(0, 2**33 + 5)]), seeds=[(7, 11)]):
        for _ in range(3):
            launch(cluster, [x], out=())
    # counter: low words count blocks, high words hold seed2; key holds seed. As TensorFlow's GuardedPhiloxRandom.
    assert states_seen == [[0, 0, 11, 0, 7, 0], [5, 2, 11, 0, 7, 0], [10, 4, 11, 0, 7, 0]]


@on_hpu
def test_sums_take_over_the_buffer_of_an_input_nobody_else_holds() -> None:
    """The contract of TensorFlow's ring collectives, which run Add and Div in place."""
    import tensorflow as tf

    from habana_tf import runtime_hooks

    @tf.function
    def five(x: Any) -> Any:
        return x + x + x + x + x

    x = tf.constant(np.ones([1 << 20], np.float32))
    real, runtime_hooks.optimize = runtime_hooks.optimize, lambda graph, item: None  # every op by itself
    try:
        five(x)
        before = tf.config.experimental.get_memory_info("HPU:0")["current"]
        tf.config.experimental.reset_memory_stats("HPU:0")
        y = five(x)
    finally:
        runtime_hooks.optimize = real
    grown = tf.config.experimental.get_memory_info("HPU:0")["peak"] - before
    assert np.array_equal(y, 5 * x.numpy())
    # Four sums: with every result in a new buffer, two would be alive at once.
    assert grown < 2 * (4 << 20), grown


@on_hpu
def test_a_broken_graph_pass_is_told_and_counted_and_the_function_still_runs() -> None:
    import tensorflow as tf

    from habana_tf import runtime_hooks

    def optimize(graph: bytes, item: Any) -> bytes | None:
        raise RuntimeError("a broken pass")

    @tf.function
    def function(a: Any) -> Any:
        return tf.tanh(a * 2.0) + 1.0

    before = counters()["optimize_errors"]
    real, runtime_hooks.optimize = runtime_hooks.optimize, optimize
    try:
        got = function(tf.constant([0.0]))
    finally:
        runtime_hooks.optimize = real
    assert got.numpy().tolist() == [1.0]
    assert counters()["optimize_errors"] > before


@on_hpu
def test_launches_work_inside_functions_and_see_their_inputs_in_order() -> None:
    import tensorflow as tf

    cluster = make_cluster(["x"], name="in a function")

    @tf.function
    def twice(x: Any) -> Any:
        (y,) = launch(cluster, [x])
        y.set_shape(x.shape)
        (z,) = launch(cluster, [y])
        return z

    with programs(lambda c, s: program([(F32, s[0][1])], doubled)):
        for value in (1.0, 2.0):
            assert twice(tf.constant([value])).numpy().tolist() == [4 * value]


@on_hpu
def test_a_thousand_steps_leave_memory_in_use_as_it_was() -> None:
    import tensorflow as tf

    cluster = make_cluster(["x"], name="steps")
    x = tf.ones([1000])
    with programs(lambda c, s: program([(F32, [1000])], doubled)):
        launch(cluster, [x])
        before = tf.config.experimental.get_memory_info("HPU:0")["current"]
        device_bytes = counters()["device_bytes"]
        for _ in range(1000):
            launch(cluster, [x])
    assert tf.config.experimental.get_memory_info("HPU:0")["current"] == before
    assert counters()["device_bytes"] == device_bytes


@pytest.mark.rest
@on_hpu
def test_a_kernel_keeps_the_programs_it_launched_last_and_no_more() -> None:
    import tensorflow as tf

    from habana_tf._native import _bridge

    cluster = make_cluster(["x"], name="many shapes")
    data = _bridge.RecipeData(b"", None)
    asked = []

    def resolve(cluster: bytes, signature: list[Any]) -> Any:
        n = signature[0][1][0]
        asked.append(n)
        return _bridge.make_program("empty", [], [], [(F32, [n])], data=data, numbers=[n])

    xs = tf.zeros([3000])
    with programs(resolve):
        for n in range(1, 3001):
            launch(cluster, [xs[:n]])
            launch(cluster, [xs[:1]])  # asked for all the time, it stays
        assert asked == list(range(1, 3001))
        assert 768 <= data.alive() <= 1024
        for n in (1, 2999, 3000):
            launch(cluster, [xs[:n]])
        assert len(asked) == 3000
        launch(cluster, [xs[:2]])
        assert asked[3000:] == [2]


@on_hpu
def test_an_answer_that_is_no_program_is_an_error() -> None:
    import tensorflow as tf

    with programs(lambda c, s: 7):
        try:
            launch(make_cluster(["x"], name="no program"), [tf.ones([2])])
        except tf.errors.InternalError as error:
            assert "resolve returned 7, which is no program" in str(error)
        else:
            raise AssertionError("a number was launched")
