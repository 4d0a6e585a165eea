"""Launches from many threads."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.child import on_hpu
from tests.device.launching import F32, doubled, in_threads, launch, make_cluster, program, programs


@on_hpu
def test_sixteen_threads_on_one_cold_function_compile_one_at_a_time() -> None:
    import tensorflow as tf

    resolved = []
    busy = threading.Lock()

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        assert busy.acquire(blocking=False), "two threads compile the same cluster"
        resolved.append(threading.get_ident())
        time.sleep(0.2)
        busy.release()
        return program([(F32, signature[0][1])], doubled)

    cluster = make_cluster(["x"], name="cold")

    @tf.function
    def function(x: Any) -> Any:
        return launch(cluster, [x])[0]

    def work() -> None:
        with tf.device("/HPU:0"):
            assert function(tf.constant([3.0])).numpy().tolist() == [6.0]

    with programs(resolve):
        in_threads(work, 16)
    # TensorFlow may instantiate a cold function several times, each with a kernel of its own that asks once, in
    # turn: from the second on it is the compiler's cache that answers.
    assert 1 <= len(resolved) < 16


@on_hpu
def test_one_failed_compilation_is_every_waiting_threads_error() -> None:
    import tensorflow as tf

    resolved = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        resolved.append(1)
        time.sleep(0.2)
        raise ValueError("cannot")

    cluster = make_cluster(["x"], name="cold and broken")

    def work() -> None:
        with tf.device("/HPU:0"):
            try:
                launch(cluster, [tf.constant([3.0])])
            except tf.errors.InternalError as error:
                assert "ValueError: cannot" in str(error)
            else:
                raise AssertionError("the launch succeeded")

    with programs(resolve):
        in_threads(work, 8)
    assert len(resolved) < 8


@on_hpu
def test_datasets_that_capture_tensors_of_the_card() -> None:
    import tensorflow as tf

    w = tf.identity(tf.constant([2.0, 3.0]))
    data = tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32) * w, num_parallel_calls=4)
    assert [x.numpy().tolist() for x in data] == [[2.0 * i, 3.0 * i] for i in range(8)]
