from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from habana_tf.tensorflow.graph import inline_xla
from habana_tf.tensorflow.graph.view import View
from tests.child import on_hpu
from tests.tensorflow.graph.harness import HPU, build, inputs, v1


def marked(body: Any, cpu: tuple[str, ...] = ()) -> View:
    function = tf.function(body, jit_compile=True)

    def make() -> None:
        x = v1.placeholder(tf.float32, (4,), "x")
        with tf.control_dependencies([tf.abs(x, "waited")]):
            y = function(x)
        with tf.control_dependencies(tf.nest.flatten(y)):
            tf.tanh(tf.nest.flatten(y)[-1], name="after")

    return View(build(make, cpu))


def test_a_body_without_effect_takes_the_place_of_its_call() -> None:
    v = marked(lambda x: (tf.split(x, 2)[0], tf.nn.relu(tf.split(x, 2)[1])))
    assert inline_xla.marked(v) == 1
    ops = [n.op for n in v.alive()]
    assert "PartitionedCall" not in ops and "Relu" in ops
    relu = next(n for n in v.alive() if n.op == "Relu")
    assert inputs(relu)[0].endswith(":1") and relu.device == HPU
    assert any(c.name == "waited" for c in relu.controls)
    (behind,) = (n for n, _ in v.by_name["after"].inputs)
    while behind.op == "Identity":
        behind = behind.inputs[0][0]
    assert behind is relu
    assert inline_xla.marked(v) == 0


def test_a_body_with_an_effect_stays_a_call_without_the_mark() -> None:
    v = marked(lambda x: x + tf.random.normal([4]))
    assert inline_xla.marked(v) == 1
    (call,) = (n for n in v.alive() if "PartitionedCall" in n.op)
    assert "_XlaMustCompile" not in call.proto.attr


def test_calls_on_the_cpu_are_left_to_xla() -> None:
    assert inline_xla.marked(marked(tf.nn.relu, cpu=("PartitionedCall",))) == 0


@on_hpu
def test_convolutions_in_groups_train_in_one_launch() -> None:
    """Keras has them compiled by XLA, for want of a CPU kernel."""
    import habana_tf

    x = np.random.default_rng(0).normal(size=(2, 6, 6, 4)).astype(np.float32)
    layer = tf.keras.layers.Conv2D(8, 3, groups=2)
    layer.build(x.shape)
    kernel = layer.kernel.numpy()

    @tf.function
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, layer.kernel)

    got = gradient(tf.constant(x)).numpy()
    assert len(habana_tf.placement_report().graphs[-1].launches) == 1
    with tf.device("/CPU:0"), tf.GradientTape() as tape:
        parts = [tf.Variable(kernel[..., :4]), tf.Variable(kernel[..., 4:])]
        ys = [tf.nn.conv2d(tf.constant(x[..., 2 * k : 2 * k + 2]), w, 1, "VALID") for k, w in enumerate(parts)]
        loss = tf.add_n([tf.reduce_sum(y**2) for y in ys])
    want = np.concatenate([g.numpy() for g in tape.gradient(loss, parts)], -1)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
