"""An op of one's own by a lowering in Python: an activation with a slope per channel that is learned, and its gradient.

    TF_BF16_CONVERSION=full python examples/custom_ops/gated_swish.py

y = x * sigmoid(slope * x). The op and its gradient, which sums over the batch for the slopes, are two functions that
say what they compute in primitives. In a training step both become parts of its one launch, fused with what stands
around them, and with TF_BF16_CONVERSION they are converted with their neighbours. It learns scikit-learn's digits.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import habana_tf
from habana_tf.custom import FLOATS, Lowering, custom_op, wrap
from habana_tf.distribute import HPUStrategy

HELD_OUT = 300  # images that the network never sees


@custom_op("GatedSwish", inputs="x: T, slope: T", outputs="y: T", T=FLOATS, shapes="x", bf16="conditional")
def gated_swish(c: Lowering):
    """One node per output. `wrap` computes in fp32, `done` rounds once, operands broadcast as in NumPy."""
    x, slope = (wrap(c.b, node) for node in c.inputs)
    return (x * (x * slope).map("sigmoid")).done(c.inputs[0].dtype)


@custom_op(
    "GatedSwishGrad", inputs="dy: T, x: T, slope: T", outputs="dx: T, dslope: T", T=FLOATS, shapes="x; slope",
    bf16="conditional",
)  # fmt: skip
def gated_swish_grad(c: Lowering):
    """Arguments that do not fit are refused with a sentence that reaches the user with op, node and shapes."""
    if c.input("dy").shape != c.input("x").shape:
        raise c.error("dy must have the shape of x")
    dy, x, slope = (wrap(c.b, node) for node in c.inputs)
    s = (x * slope).map("sigmoid")
    ds = s * (1.0 - s)
    rows = range(x.node.rank - 1)
    dslope = (dy * x * x * ds).sum(rows).flat(rows)
    return [(dy * (s + x * slope * ds)).done(c.inputs[0].dtype), dslope.done(c.inputs[2].dtype)]


@tf.RegisterGradient("GatedSwish")
def _(op, dy):
    return gated_swish_grad(dy, op.inputs[0], op.inputs[1])


class GatedSwish(tf.keras.layers.Layer):
    def build(self, shape):
        self.slope = self.add_weight(name="slope", shape=[shape[-1]], initializer="ones")

    def call(self, x):
        return gated_swish(x, tf.convert_to_tensor(self.slope))


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns digits with an activation of its own.")
    parser.add_argument("--epochs", type=int, default=15)
    epochs = parser.parse_args().epochs

    habana_tf.load_habana_module()
    tf.keras.utils.set_random_seed(1)
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x, y = data.data[order].astype("float32") / 16, data.target[order]

    with HPUStrategy().scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [layers.Input((64,)), layers.Dense(128), GatedSwish(), layers.Dense(64), GatedSwish(), layers.Dense(10)]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    model.fit(x[HELD_OUT:], y[HELD_OUT:], batch_size=64, epochs=epochs, verbose=2)
    _, accuracy = model.evaluate(x[:HELD_OUT], y[:HELD_OUT], batch_size=100, verbose=0)
    slopes = np.concatenate([w.numpy() for w in model.weights if "slope" in w.name])
    print(habana_tf.placement_report())
    print(f"Test accuracy: {accuracy:.1%}; slopes from {slopes.min():.2f} to {slopes.max():.2f}")


if __name__ == "__main__":
    main()
