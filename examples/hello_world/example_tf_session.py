"""TensorFlow 1 style: a session, placeholders whose batch is not known, Keras layers.

Trains on batches of 50 and tests on all images after every step: two sizes of one graph's input.

    python examples/hello_world/example_tf_session.py
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from digits import load_data

from habana_frameworks.tensorflow import load_habana_module

load_habana_module()
tf.compat.v1.disable_eager_execution()

(x_train, y_train), (x_test, y_test) = load_data()
x_train, x_test = (x.reshape(-1, 28 * 28).astype(np.float32) / 255.0 for x in (x_train, x_test))
y_train, y_test = (y.astype(np.int32) for y in (y_train, y_test))

x = tf.compat.v1.placeholder(tf.float32, [None, 28 * 28])
labels = tf.compat.v1.placeholder(tf.int32, [None])
hidden = tf.keras.layers.Dense(128, activation="relu")(x)
logits = tf.keras.layers.Dense(10)(hidden)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
# Habana's example learns MNIST at 0.5, at which these digits make its loss jump.
train = tf.compat.v1.train.GradientDescentOptimizer(learning_rate=0.1).minimize(loss)
correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

order = np.random.default_rng(0)
with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    for step in range(1, 101):
        batch = order.choice(len(x_train), 50, replace=False)
        _, loss_value = session.run([train, loss], {x: x_train[batch], labels: y_train[batch]})
        score = session.run(accuracy, {x: x_test, labels: y_test})
        print(f"Step {step}, loss: {loss_value:.4f}, test accuracy: {score * 100:.2f}")
