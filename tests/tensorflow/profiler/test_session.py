"""TensorFlow's profiler shows HPU: planes read back and compared with what the runtime counted."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.card.timeline.messages import names, plane, stats, xspace
from tests.child import on_hpu
from tests.versions import KERAS_3


def _profiled(work: Callable[[str], None]) -> tuple[Any, bytes, int]:
    """What a session wrote about some work: the XSpace, its bytes, and how many launches there were."""
    from habana_tf._native import _bridge

    with TemporaryDirectory() as folder:
        before = _bridge.counters()["launches"]
        work(folder)
        launches = _bridge.counters()["launches"] - before
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = path.read_bytes()
    return xspace(data), data, launches


def _session(work: Callable[[], None]) -> Callable[[str], None]:
    def run(folder: str) -> None:
        import tensorflow as tf

        tf.profiler.experimental.start(folder)
        try:
            work()
        finally:
            tf.profiler.experimental.stop()

    return run


def _steps(count: int) -> Callable[[], None]:
    import tensorflow as tf

    w = tf.Variable(tf.ones([32, 8]), name="weights")

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.nn.relu(tf.matmul(x, w, name="product")) ** 2)
        w.assign_sub(0.01 * tape.gradient(y, w))

    x = tf.ones([16, 32])
    step(x)

    def work() -> None:
        for number in range(count):
            with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
                step(x)

    return work


def _launches(of: Any) -> int:
    return sum(name.startswith("launch ") for line in of.lines for name in names(of, line))


@on_hpu
def test_every_launch_is_on_the_device_s_plane_and_on_the_card_s() -> None:
    space, _, launches = _profiled(_session(_steps(7)))
    hpu, card = plane(space, "/device:GPU:0 is /device:HPU:0"), plane(space, "/device:GPU:1 is gaudi2 as predicted")
    assert _launches(hpu) == _launches(card) == launches >= 7
    assert not space.errors
    found = [stats(hpu, e) for line in hpu.lines for e in line.events]
    assert sum(f.get("tf_op") == "product:MatMul" for f in found) == 7
    (products,) = (line for line in card.lines if line.name == "MME")
    assert len(products.events) == 14  # forward, and for the gradient


@on_hpu
def test_launches_lie_in_the_steps_that_made_them() -> None:
    """By TensorFlow's own clock and threads: each launch within a step, on a thread that TensorFlow traced."""
    space, _, _ = _profiled(_session(_steps(3)))
    host = plane(space, "/host:CPU")
    steps = [(e, line) for line in host.lines for e, n in zip(line.events, names(host, line), strict=True)
             if n == "train"]  # fmt: skip
    assert len(steps) == 3
    inside = 0
    for line in host.lines:
        found = names(host, line)
        if (mine := [e for e, n in zip(line.events, found, strict=True) if n.startswith("launch cluster")]) == []:
            continue
        assert any(not n.startswith("launch ") for n in found), "a thread that TensorFlow does not know"
        for launch in mine:
            at = line.timestamp_ns * 1000 + launch.offset_ps
            spans = [(of.timestamp_ns * 1000 + e.offset_ps, e.duration_ps) for e, of in steps]
            assert any(a <= at and at + launch.duration_ps <= a + length for a, length in spans)
            inside += 1
    assert inside == 3


@on_hpu
def test_a_session_has_its_own_launches_only() -> None:
    work = _steps(4)
    first = _profiled(_session(work))
    work()
    second = _profiled(_session(work))
    for space, _, launches in (first, second):
        assert _launches(plane(space, "/device:GPU:0 is")) == launches
    empty, _, none = _profiled(_session(lambda: None))
    assert none == 0 and _launches(plane(empty, "/device:GPU:0 is")) == 0


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorFlow 2.21 comes without TensorBoard")
def test_tensorboard_s_callback_of_keras() -> None:
    _callback()


@on_hpu
def _callback() -> None:
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def fit(folder: str) -> None:
        board = tf.keras.callbacks.TensorBoard(folder, profile_batch=(3, 5))
        model.fit(np.ones([80, 4], "f"), np.ones([80, 1], "f"), batch_size=8, verbose=0, callbacks=[board])

    space, _, _ = _profiled(fit)
    hpu = plane(space, "/device:GPU:0 is")
    clusters = [n for line in hpu.lines for n in names(hpu, line) if n.startswith("launch cluster")]
    assert 3 <= len(clusters) <= 4  # one per batch, and one that began before the session is of none


@pytest.mark.skipif(KERAS_3, reason="TensorFlow 2.21 leaves the tools to TensorBoard's plugin")
def test_the_tools_of_tensorboard_count_it() -> None:
    _tools()


@on_hpu
def _tools() -> None:
    from tensorflow.python.profiler.internal import _pywrap_profiler

    _, data, _ = _profiled(_session(_steps(5)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "host.xplane.pb"
        path.write_bytes(data)
        tool = {
            name: _pywrap_profiler.xspace_to_tools_data([str(path)], name)[0]
            for name in ("overview_page", "tensorflow_stats", "op_profile", "trace_viewer")
        }
    assert b"Device" in tool["tensorflow_stats"] and b"product" in tool["tensorflow_stats"]
    assert b"product" in tool["overview_page"] and b"product" in tool["op_profile"]
    assert b"MatMul" in tool["tensorflow_stats"]
    for text in (
        b"is /device:HPU:0, simulated gaudi2",
        b"is gaudi2 as predicted",
        b"MME",
        b"Steps",
        b"launch cluster_",
    ):
        assert text in tool["trace_viewer"]
