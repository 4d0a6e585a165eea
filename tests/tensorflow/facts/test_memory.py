"""The memory report of programs that train, against sizes counted by hand."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import habana_tf
from habana_tf.resolver.memory_report import MemoryReport, memory_report
from tests.child import on_hpu

INPUT, HIDDEN, CLASSES = 96, 512, 10
WEIGHTS = 4 * (INPUT * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES)
"""Bytes of float32: two dense layers."""
STATE = 2 * WEIGHTS + 8 + 4
"""Of Adam: two moments, the number of steps as int64, the learning rate."""


def test_without_the_device_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habana_tf.resolver.memory_report._sources", [])
    with pytest.raises(RuntimeError, match="load_habana_module"):
        memory_report()


def _train(way: str, batch: int) -> Any:
    """Two steps of a small network; returns what must stay alive."""
    import numpy as np
    import tensorflow as tf

    dense = tf.keras.layers.Dense
    layers = [tf.keras.Input((INPUT,)), dense(HIDDEN, "relu", name="a"), dense(CLASSES, name="b")]
    net = tf.keras.Sequential(layers, name="net")
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    adam = tf.keras.optimizers.Adam()
    x, y = np.ones((2 * batch, INPUT), np.float32), np.zeros(2 * batch, np.int64)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    if way == "fit":
        net.compile(adam, loss)
        net.fit(data, verbose=0)
        return net

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            found = loss(y, net(x))
        weights = net.trainable_variables
        adam.apply_gradients(zip(tape.gradient(found, weights), weights, strict=True))

    run: Callable[[Any, Any], None] = tf.function(step) if way == "loop" else step
    for batch_x, batch_y in data:
        run(batch_x, batch_y)
    return net, adam


def _check(way: str, batch: int) -> MemoryReport:
    import tensorflow as tf

    gc.collect()
    before = habana_tf.memory_report().now
    tf.config.experimental.reset_memory_stats("HPU:0")
    kept = _train(way, batch)
    report = habana_tf.memory_report()
    assert sum(report.now.values()) == report.current and sum(report.at_peak.values()) == report.peak
    assert min(report.now.values()) >= 0 and min(report.at_peak.values()) >= 0
    grown = {name: report.now[name] - before[name] for name in ("weights", "optimizer")}
    assert grown == {"weights": WEIGHTS, "optimizer": STATE}, (grown, WEIGHTS, STATE)
    found = tf.config.experimental.get_memory_info("HPU:0")
    assert (report.current, report.peak) == (found["current"], found["peak"])
    del kept
    return report


@pytest.mark.rest
@on_hpu
def test_eager() -> None:
    report = _check("eager", 256)
    assert report.owner is not None and report.owner.name in ("MatMul", "ReluGrad", "Relu", "BiasAdd", "Mul", "Sub")
    assert report.owner.reached <= report.peak


def _steps(report: MemoryReport, batch: int) -> None:
    """The owner is the training step: its batch, and the hidden activation that the backward pass reads."""
    assert report.owner is not None and report.owner.name.startswith("cluster_")
    assert report.owner.fed == report.at_peak["inputs"] == batch * (INPUT * 4 + 8)
    hidden = batch * HIDDEN * 4
    assert report.owner_peak.layers["net/a"] >= hidden
    assert sum(report.at_peak[name] for name in ("activations", "gradients", "workspace")) >= hidden
    assert report.owner.reached <= report.peak


@pytest.mark.rest
@on_hpu
def test_a_loop_of_the_programs_own() -> None:
    _steps(_check("loop", 1024), 1024)


@on_hpu
def test_keras_fit() -> None:
    _steps(_check("fit", 2048), 2048)


@on_hpu
def test_what_another_launch_of_the_step_made_is_an_activation() -> None:
    import tensorflow as tf

    rows, columns = 4096, 256
    w = tf.Variable(tf.ones((8, columns)))

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ w)
            _, order = tf.unique(tf.cast(hidden[:, 0], tf.int32))  # on the CPU, between two launches
            loss = tf.reduce_sum(hidden * tf.cast(order, tf.float32)[:, None])
        w.assign_sub(1e-3 * tape.gradient(loss, w))

    tf.config.experimental.reset_memory_stats("HPU:0")
    step(tf.ones((rows, 8)))
    report = habana_tf.memory_report()
    assert report.owner is not None and report.owner.updates == 8 * columns * 4
    assert report.owner.made >= rows * columns * 4 <= report.at_peak["activations"]
    assert sum(report.at_peak.values()) == report.peak >= report.owner.reached


@on_hpu
def test_other_variables_and_tensors_are_told_apart() -> None:
    import tensorflow as tf

    gc.collect()
    before = habana_tf.memory_report().now
    frozen = tf.Variable(tf.ones((100, 7)), trainable=False)
    counter = tf.Variable(0, dtype=tf.int64)
    weight = tf.Variable(tf.ones((3, 5)))
    alias = weight.value()  # the memory of the variable once more
    tensor = tf.ones((1000, 50)) + 1.0
    with tf.device("/CPU:0"):
        elsewhere = tf.Variable(tf.ones((1000, 1000)))
    report = habana_tf.memory_report()
    grown = {name: n - before.get(name, 0) for name, n in report.now.items()}
    assert (grown["weights"], grown["other variables"], grown["optimizer"]) == (60, 2808, 0)
    assert grown["tensors"] >= 200_000 and sum(report.now.values()) == report.current
    del frozen, counter, alias, tensor, elsewhere
