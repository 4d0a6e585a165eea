"""A training loop of one's own on several cards with Horovod.

mpirun -np 2 python examples/hello_world/example_tf_func_hvd.py
habana-tf run -n 2 --strategy horovod examples/hello_world/example_tf_func_hvd.py
"""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf
from digits import load_data

from habana_frameworks.tensorflow import load_habana_module

load_habana_module()
hvd.init()

(x_train, y_train), (x_test, y_test) = load_data()
x_train = (x_train / 255.0)[..., tf.newaxis].astype("float32")
x_test = (x_test / 255.0)[..., tf.newaxis].astype("float32")
share = len(x_train) // hvd.size()
mine = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
train_data = tf.data.Dataset.from_tensor_slices((x_train[mine], y_train[mine])).shuffle(10000).batch(64)
test_data = tf.data.Dataset.from_tensor_slices((x_test, y_test)).batch(32)


class Network(tf.keras.Model):
    """Logits of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = tf.keras.layers.Conv2D(32, 3, activation="relu")
        self.flatten = tf.keras.layers.Flatten()
        self.hidden = tf.keras.layers.Dense(128, activation="relu")
        self.out = tf.keras.layers.Dense(10)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.out(self.hidden(self.flatten(self.convolution(x))))


model = Network()
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.legacy.Adam())
train_loss = tf.keras.metrics.Mean(name="train_loss")
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")


def broadcast() -> bool:
    """Every rank takes rank 0's weights."""
    hvd.broadcast_variables(model.variables, root_rank=0)
    return True


@tf.function
def train_step(images: tf.Tensor, labels: tf.Tensor, step: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = loss_object(labels, predictions)
    tf.cond(tf.equal(step, 0), broadcast, lambda: False)
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(
        zip(gradients, model.trainable_variables, strict=True), experimental_aggregate_gradients=True
    )
    train_loss(loss)
    train_accuracy(labels, predictions)


@tf.function
def test_step(images: tf.Tensor, labels: tf.Tensor) -> None:
    test_accuracy(labels, model(images, training=False))


step = 0
for epoch in range(3):
    for metric in (train_loss, train_accuracy, test_accuracy):
        metric.reset_states()
    for images, labels in train_data:
        train_step(images, labels, tf.constant(step, tf.int64))
        step += 1
    for images, labels in test_data:
        test_step(images, labels)
    if hvd.rank() == 0:
        print(
            f"Epoch {epoch + 1}, loss: {train_loss.result():.4f}, accuracy: {train_accuracy.result() * 100:.2f}, "
            f"test accuracy: {test_accuracy.result() * 100:.2f}"
        )
