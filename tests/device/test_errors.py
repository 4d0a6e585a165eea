"""Errors: nothing is swallowed, and each has TensorFlow's own class."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from tests.child import on_hpu
from tests.device.launching import F32, doubled, launch, make_cluster, program, programs


@on_hpu
def test_an_exception_while_compiling_reaches_the_user_with_its_place() -> None:
    import tensorflow as tf

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        raise ZeroDivisionError("no such luck")

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="raises"), [tf.ones([1])])
        except tf.errors.InternalError as error:
            assert "ZeroDivisionError: no such luck" in str(error)
            assert "test_errors.py:" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_an_exception_chooses_its_status() -> None:
    import tensorflow as tf

    class Unimplemented(Exception):
        status_code = 12

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        raise Unimplemented("op X, node y: not on HPU")

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="unimplemented"), [tf.ones([1])])
        except tf.errors.UnimplementedError as error:
            assert "op X, node y: not on HPU" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_ctrl_c_while_compiling_reaches_the_user_and_is_forgotten() -> None:
    import tensorflow as tf

    calls = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return program([(F32, [1])], doubled)

    cluster = make_cluster(["x"], name="interrupted")
    with programs(resolve):
        interrupted = False
        try:
            with contextlib.suppress(tf.errors.CancelledError):
                launch(cluster, [tf.ones([1])])
            for _ in range(100):
                time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted = True
        assert interrupted
        (y,) = launch(cluster, [tf.ones([1])])
        assert y.numpy().tolist() == [2.0]


@on_hpu
def test_lack_of_memory_while_compiling_is_resource_exhausted() -> None:
    import tensorflow as tf

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        raise MemoryError("17 GB for a schedule")

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="no memory"), [tf.ones([1])])
        except tf.errors.ResourceExhaustedError as error:
            assert "host memory" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_a_program_that_would_read_past_an_input_is_refused() -> None:
    import tensorflow as tf

    from habana_tf._native import _bridge

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        return _bridge.make_program("test", [], [(0, 0, 0, 4096)], [(F32, [1])])

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="past the end"), [tf.ones([1])])
        except tf.errors.InternalError as error:
            assert "reaches past its input" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_a_program_that_does_not_fit_its_op_is_an_error() -> None:
    import tensorflow as tf

    with programs(lambda c, s: program([(F32, [1]), (F32, [1])], doubled)):
        try:
            launch(make_cluster(["x"], name="two outputs"), [tf.ones([1])])
        except tf.errors.InternalError as error:
            assert "2 outputs, its op has 1" in str(error)
        else:
            raise AssertionError("the launch succeeded")
