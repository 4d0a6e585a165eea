"""Variables that a launch updates where they are, beside what holds, reads or updates them elsewhere."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu, python
from tests.tensorflow.graph.updating import updated
from tests.versions import KERAS_3


@on_hpu
def test_who_holds_a_value_keeps_it() -> None:
    """A value that was read before a step, or came out of one, is not changed by the next."""
    with tf.device("/HPU:0"):
        v = tf.Variable(np.zeros((64, 64), "f4"))

        @tf.function
        def step() -> tf.Tensor:
            return v.assign_add(tf.ones_like(v)).read_value()

        held = [v.read_value(), v.value()]
        for _ in range(3):
            held.append(step())
            held.append(v.read_value())
        assert updated() == 1
    assert [float(h.numpy()[0, 0]) for h in held] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all((h.numpy() == h.numpy()[0, 0]).all() for h in held)


@on_hpu
def test_threads_that_read_see_whole_steps() -> None:
    with tf.device("/HPU:0"):
        v = tf.Variable(np.zeros((512, 512), "f4"))

        @tf.function
        def step() -> None:
            v.assign_add(tf.ones_like(v))

        torn, ended = [], threading.Event()

        def look() -> None:
            while not ended.is_set():
                seen = v.numpy()
                if (seen != seen[0, 0]).any():
                    torn.append(seen)

        step()
        assert updated() == 1
        readers = [threading.Thread(target=look) for _ in range(2)]
        count = 2
        writers = [threading.Thread(target=lambda: [step() for _ in range(100)]) for _ in range(count)]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        ended.set()
        for thread in readers:
            thread.join()
        assert not torn and (v.numpy() == 1 + 100 * count).all()


def test_a_launch_that_is_interpreted_locks_nobody_out() -> None:
    """It needs Python, and an op that is given the variable waits for its lock with Python's."""
    program = """
import threading
import tensorflow as tf, habana_tf
from habana_tf.compiler.view_indices import Unfit
from habana_tf.resolver import recipes
habana_tf.load_habana_module()
compile_program = recipes.compile_program

def refused(program, name, target):
    if program.updates:
        raise Unfit("of this test")
    return compile_program(program, name, target)

recipes.compile_program = refused
v = tf.Variable(tf.zeros((301, 303)))
step = tf.function(lambda: v.assign(tf.minimum(v + 1.0, 1e6)))
step()
tf.raw_ops.Neg(x=v)
writer = threading.Thread(target=lambda: [step() for _ in range(100)])
writer.start()
seen = []
while writer.is_alive():
    seen.append(tf.raw_ops.Neg(x=v))
print(len(seen) > 0, all(float(tf.reduce_max(s) - tf.reduce_min(s)) == 0 for s in seen[::10]), float(v[0, 0]))
"""
    assert python(program, imported=True, TF_CPU_RUNTIME_FALLBACK="allow").stdout.splitlines()[-1] == "True True 101.0"


@on_hpu
def test_one_variable_as_two_arguments() -> None:
    """Either update may be the last; neither may be half of each."""
    with tf.device("/HPU:0"):
        v = tf.Variable(np.zeros((256, 256), "f4"))

        @tf.function
        def step(a: Any, b: Any) -> None:
            tf.raw_ops.AssignVariableOp(resource=a, value=tf.raw_ops.ReadVariableOp(resource=a, dtype=tf.float32) + 1.0)
            tf.raw_ops.AssignVariableOp(resource=b, value=tf.raw_ops.ReadVariableOp(resource=b, dtype=tf.float32) + 3.0)

        step(v.handle, v.handle)
        seen = v.numpy()
    assert (seen == seen[0, 0]).all() and seen[0, 0] in (1, 3, 4)


@pytest.mark.skipif(KERAS_3, reason="newer releases of TensorFlow do not let a plugin write over a variable")
@on_hpu
def test_an_optimizer_s_step_needs_no_second_copy_of_its_variables() -> None:
    from habana_tf._native import _bridge

    with tf.device("/HPU:0"):
        w, m = (tf.Variable(tf.ones((1024, 1024))) for _ in range(2))
        x = tf.ones((4, 1024))

        @tf.function
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w) ** 2)
            m.assign(0.9 * m + tape.gradient(loss, w))
            w.assign_sub(0.1 * m)

        step()
        tf.config.experimental.reset_memory_stats("HPU:0")
        now = tf.config.experimental.get_memory_info("HPU:0")["current"]
        copies = _bridge.counters()["card_copies"]
        step()
        peak = tf.config.experimental.get_memory_info("HPU:0")["peak"]
    assert _bridge.counters()["card_copies"] == copies
    assert peak - now < 1 << 20, "two variables of 4 MB"


@on_hpu
def test_keras_optimizers_update_all_they_keep() -> None:
    x = tf.random.stateless_normal((32, 12), (1, 2))
    for optimizer, kept in (("sgd", 1), ("adam", 3), ("rmsprop", 2)):
        model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(3)])
        for steps in (1, 2):
            model.compile(optimizer, "mse", steps_per_execution=steps)
            model.fit(x, x[:, :3], batch_size=16, epochs=1, verbose=0)
            assert updated() >= 4 * kept, (optimizer, steps)


@on_hpu
def test_a_shape_that_does_not_fit_is_an_error_and_changes_nothing() -> None:
    with tf.device("/HPU:0"):
        v = tf.Variable(np.ones((2, 3), "f4"))

        @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
        def step(x: tf.Tensor) -> None:
            v.assign(v[0, 0] + x)

        step(tf.ones((2, 3)))
        shapes = r"shape \[3,2\].* shape \[2,3\]|Expected \[2,3\] got \[3,2\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=shapes):
            step(tf.ones((3, 2)))
        step(tf.ones((2, 3)))
        np.testing.assert_array_equal(v.numpy(), np.full((2, 3), 3.0))
