"""Predictions: that nothing runs, what they depend on, and what they must not contradict."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from tests.child import on_hpu
from tests.versions import KERAS_3

layers = tf.keras.layers


def perceptron(width: int = 512, depth: int = 3) -> tf.keras.Model:
    return tf.keras.Sequential([
        layers.Input((width,)),
        *(layers.Dense(width, activation="relu", use_bias=False) for _ in range(depth)),
        layers.Dense(16, use_bias=False),
    ])  # fmt: skip


@on_hpu
def test_nothing_runs_and_the_model_is_as_before() -> None:
    import habana_tf
    from habana_tf._native import _bridge

    model = perceptron(64, 30)
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    weights, optimizer = [w.numpy() for w in model.trainable_variables], model.optimizer
    x, y = np.zeros((8, 64), "f4"), np.zeros(8, "i4")
    before = _bridge.counters()["launches"]
    found = habana_tf.predict(model, x, y)
    assert _bridge.counters()["launches"] - before <= 2 * len(weights) + 10  # Keras fills what it makes slots from
    assert model.optimizer is optimizer and model.optimizer.iterations.numpy() == 0
    assert all((a == b.numpy()).all() for a, b in zip(weights, model.trainable_variables, strict=True))
    assert found.launches == 1 and found.batch == 8 and found.fits and not found.host_ops
    model.fit(x, y, verbose=0)  # it trains as if nothing had been


@on_hpu
def test_arrays_specs_and_shapes_give_the_same() -> None:
    import habana_tf

    model = perceptron(64)
    x = np.zeros((8, 64), "f4")
    ways: list[Any] = [x, tf.constant(x), tf.TensorSpec((8, 64)), (8, 64)]
    first, *rest = (habana_tf.predict(model, way).to_dict() for way in ways)
    assert all(each == first for each in rest)


@on_hpu
def test_the_same_from_shapes_alone_and_from_the_run_s_own_cluster() -> None:
    """The launches that a run made, costed from the shapes that they met."""
    import habana_tf
    from habana_tf.card.model.lowered import lowered
    from habana_tf.card.model.step_time import step_time
    from habana_tf.hardware.chips import chip
    from habana_tf.resolver import resolve

    met: list[Any] = []
    known = resolve.Request.met

    def watch(cluster: Any, signature: Any) -> Any:
        request = known(cluster, signature)
        met.append(request)
        return request

    @tf.function
    def f(a: Any, b: Any) -> Any:
        return tf.nn.softmax(tf.matmul(a, b)) * 2.0

    told = habana_tf.predict(f, (96, 64), (64, 32), precision="fp32", chip="gaudi2")
    with mock.patch.object(resolve.Request, "met", watch):
        f(tf.ones((96, 64)), tf.ones((64, 32)))
    (ran,) = [r for r in met if len(r.cluster.nodes) > 2]
    again = step_time(chip("gaudi2"), [lowered(ran.cluster, ran.shapes, ran.values)])
    assert again.launches == told.step.launches and again.hbm_bytes == told.step.hbm_bytes


@on_hpu
def test_time_grows_with_the_batch_and_memory_too() -> None:
    import habana_tf

    rows = list(
        habana_tf.compare(perceptron(), (64, 512), chips=["gaudi", "gaudi2", "gaudi3"], batches=[64, 256, 1024])
    )
    for chip in ("gaudi", "gaudi2", "gaudi3"):
        mine = [row for row in rows if row.chip == chip]
        assert [row.batch for row in mine] == [64, 256, 1024]
        assert mine[0].step_seconds < mine[1].step_seconds < mine[2].step_seconds
        assert mine[0].hbm_bytes < mine[1].hbm_bytes < mine[2].hbm_bytes
        assert mine[0].examples_per_second < mine[2].examples_per_second


@on_hpu
def test_never_above_the_roofline() -> None:
    import habana_tf
    from habana_tf.tensorflow.dry_run.weightless import without_values

    with without_values():
        model = perceptron(4096, 6)
    for found in habana_tf.compare(model, (8192, 4096)):
        flops = sum(layer.flops for layer in found.layers)
        assert flops >= 2 * 3 * 8192 * 4096**2 * 5  # it is a large product indeed
        assert found.step_seconds >= flops / found.step.chip.peak_bf16_flops
        assert found.step_seconds >= sum(layer.hbm_bytes for layer in found.layers) / 2 / found.step.chip.hbm_bandwidth
        assert 0.2 < found.mme_utilisation <= 1


@on_hpu
def test_weak_scaling_loses_little_and_gains_always() -> None:
    import habana_tf

    rows = list(habana_tf.compare(perceptron(2048, 8), (16384, 2048), chips=["gaudi2"], cards=[1, 2, 8, 16, 32, 256]))
    speeds = [row.examples_per_second for row in rows]
    assert all(after > before for before, after in pairwise(speeds))
    assert all(row.examples_per_second <= row.cards * speeds[0] for row in rows)
    assert rows[1].step_seconds < 2 * rows[0].step_seconds
    assert rows[2].engines["network"] > 0 == rows[0].engines["network"]


@on_hpu
def test_aligned_sizes_beat_unaligned_ones_and_the_report_says_so() -> None:
    """1,000 is less work than 1,024, and takes longer."""
    import habana_tf

    aligned = habana_tf.predict(perceptron(1024, 8), (4096, 1024), chip="gaudi2")
    crooked = habana_tf.predict(perceptron(1000, 8), (4096, 1000), chip="gaudi2")
    assert aligned.step_seconds < crooked.step_seconds
    assert any("cache lines" in text for layer in crooked.layers for text in layer.help)
    assert not any("cache lines" in text for layer in aligned.layers[:3] for text in layer.help)


@on_hpu
def test_fp32_is_slower_and_said_to_be() -> None:
    import habana_tf

    short = habana_tf.predict(perceptron(1024), (4096, 1024))
    wide = habana_tf.predict(perceptron(1024), (4096, 1024), precision="fp32")
    assert wide.step_seconds > 1.5 * short.step_seconds
    assert any("bf16" in text for layer in wide.layers for text in layer.help)


@on_hpu
def test_memory_by_category_is_what_the_shapes_say() -> None:
    import habana_tf

    weights = (3 * 512 * 512 + 512 * 16) * 4
    found = habana_tf.predict(perceptron(), (64, 512), precision="fp32", optimizer="adam")
    assert found.memory["weights"] == weights
    assert 2 * weights <= found.memory["optimizer"] <= 2 * weights + 64
    assert found.memory["inputs"] >= 64 * 512 * 4


@on_hpu
def test_a_compiled_model_trains_with_its_own_loss_and_optimizer() -> None:
    import habana_tf

    seen = []

    def loss(truth: Any, y: Any) -> Any:
        seen.append(tuple(y.shape))
        return tf.reduce_mean(tf.square(y - truth), -1)

    model = perceptron(64)
    model.compile(tf.keras.optimizers.SGD(0.1), loss)
    plain = habana_tf.predict(model, (8, 64), (8, 16))
    assert (8, 16) in seen and plain.memory["optimizer"] < 100
    assert habana_tf.predict(model, (8, 64), (8, 16), optimizer="adam").memory["optimizer"] > 1000


@on_hpu
def test_what_stays_on_the_cpu_is_named() -> None:
    import habana_tf

    def f(x: Any) -> Any:
        with tf.device("/CPU:0"):
            y = tf.sort(tf.matmul(x, x))
        return tf.tanh(y)

    found = habana_tf.predict(f, (1024, 1024))
    assert {row["op"] for row in found.host_ops} & {"MatMul", "TopKV2"}
    assert any("on the CPU" in line for line in str(found).splitlines())


@on_hpu
def test_errors_say_what_to_do() -> None:
    import habana_tf
    from habana_tf.card.prediction.foreseen import PredictionError

    for call, said in (
        (lambda: habana_tf.predict(tf.nn.relu), "give the inputs"),
        (lambda: habana_tf.predict(tf.nn.relu, tf.TensorSpec((None, 4))), "give a size for each axis"),
        (lambda: habana_tf.predict(tf.nn.relu, (4, 4), chip="tpu"), "use one of gaudi"),
        (lambda: habana_tf.predict(tf.nn.relu, (4, 4), precision="fp8"), "'bf16' or 'fp32'"),
        (lambda: habana_tf.predict(tf.nn.relu, (4, 4), cards=0), "at least one card"),
        (lambda: habana_tf.predict(tf.nn.relu, object()), "give arrays"),
    ):
        try:
            call()
        except (PredictionError, ValueError) as error:
            assert said in str(error), error
        else:
            raise AssertionError(said)


@on_hpu
def test_for_people_for_programs_and_in_a_notebook() -> None:
    import habana_tf

    found = habana_tf.predict(perceptron(64), (8, 64), chip="gaudi3", cards=8)
    data = json.loads(found.to_json())
    assert data["examples_per_second"] == found.examples_per_second and data["cards"] == 8
    assert set(data) >= {"step_seconds", "hbm_bytes", "fits", "memory", "layers", "engines", "largest_batch"}
    shown = str(found)
    assert "8 x gaudi3, batch 8 each, bf16" in shown and "largest batch" in shown
    assert "8 x gaudi3" in found._repr_html_()
    table = str(habana_tf.compare(perceptron(64), (8, 64), cards=[1, 8]))
    assert table.count("gaudi2") == 2 and table.count("gaudi3") == 2


@on_hpu
def test_legacy_optimizers_and_variables_without_values() -> None:
    import habana_tf
    from habana_tf.tensorflow.dry_run.weightless import without_values

    with without_values():
        model = perceptron(1024)
    if not KERAS_3:
        model.compile(tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9), "mse")
        found = habana_tf.predict(model, (8, 1024), (8, 16))
        assert 0 <= found.memory["optimizer"] - found.memory["weights"] < 100
        assert found.memory["weights"] == (3 * 1024 + 16) * 1024 * 4
    assert habana_tf.predict(model, (8, 1024)).step_seconds > 0


@on_hpu
def test_parts_of_micro_batches_sum_up_to_their_step() -> None:
    import math

    import habana_tf

    one, four = (
        habana_tf.predict(perceptron(), (64, 512), (64,), cards=8, accumulate=n, host=habana_tf.Host()) for n in (1, 4)
    )
    for found in (one, four):
        assert math.isclose(sum(found.parts.values()), found.step_seconds, rel_tol=1e-9)
        assert math.isclose(sum(t["seconds"] for t in found.pcie), found.step.copies, rel_tol=1e-9)
    once, each = (found.engines["MME"] * found.step_seconds for found in (one, four))
    assert math.isclose(each, 4 * once, rel_tol=1e-9)
    card, cards = (found.step_seconds - found.parts["waiting for the host"] for found in (one, four))
    assert 3 * card < cards < 4 * card, "one update and one sum over cards"
    assert four.limits.python == 4 * one.limits.python and "batch 4 x 64 each" in str(four)
