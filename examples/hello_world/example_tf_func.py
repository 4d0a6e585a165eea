"""A training loop of one's own: two functions, `GradientTape`, Keras metrics.

python examples/hello_world/example_tf_func.py
"""

from __future__ import annotations

import tensorflow as tf
from digits import load_data

from habana_frameworks.tensorflow import load_habana_module

load_habana_module()

(x_train, y_train), (x_test, y_test) = load_data()
x_train = (x_train / 255.0)[..., tf.newaxis].astype("float32")
x_test = (x_test / 255.0)[..., tf.newaxis].astype("float32")
train_data = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(10000).batch(32)
test_data = tf.data.Dataset.from_tensor_slices((x_test, y_test)).batch(32)

model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.legacy.Adam()

train_loss = tf.keras.metrics.Mean(name="train_loss")
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
test_loss = tf.keras.metrics.Mean(name="test_loss")
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")


@tf.function
def train_step(images: tf.Tensor, labels: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = loss_object(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    train_loss(loss)
    train_accuracy(labels, predictions)


@tf.function
def test_step(images: tf.Tensor, labels: tf.Tensor) -> None:
    predictions = model(images, training=False)
    test_loss(loss_object(labels, predictions))
    test_accuracy(labels, predictions)


for epoch in range(5):
    for metric in (train_loss, train_accuracy, test_loss, test_accuracy):
        metric.reset_states()
    for images, labels in train_data:
        train_step(images, labels)
    for images, labels in test_data:
        test_step(images, labels)
    print(
        f"Epoch {epoch + 1}, loss: {train_loss.result():.4f}, accuracy: {train_accuracy.result() * 100:.2f}, "
        f"test loss: {test_loss.result():.4f}, test accuracy: {test_accuracy.result() * 100:.2f}"
    )
