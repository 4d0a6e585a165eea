"""A Keras model on several cards with Horovod. The module is not loaded here: `python -m habana_tf` does it.

cd examples/hello_world && mpirun -np 2 python -m habana_tf example_hvd.py
cd examples/hello_world && habana-tf run -n 2 --strategy horovod --load example_hvd.py
"""

from __future__ import annotations

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from digits import load_data

hvd.init()

if hvd.rank() > 0:
    hvd.broadcast(0, 0)  # rank 0 prepares the data first
(x_train, y_train), (x_test, y_test) = load_data()
if hvd.rank() == 0:
    hvd.broadcast(0, 0)

x_train, x_test = x_train / 255.0, x_test / 255.0
share = len(x_train) // hvd.size()
mine = slice(hvd.rank() * share, (hvd.rank() + 1) * share)

model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Flatten(input_shape=(28, 28)),
        tf.keras.layers.Dense(10),
    ]
)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.legacy.SGD(learning_rate=0.01 * hvd.size())
callbacks = []
if hvd.size() > 1:
    optimizer = hvd.DistributedOptimizer(optimizer)
    callbacks.append(hvd.callbacks.BroadcastGlobalVariablesCallback(0))
model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])

model.fit(
    x_train[mine], y_train[mine], epochs=3, batch_size=128, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0
)
if hvd.rank() == 0:
    model.evaluate(x_test, y_test, verbose=2)
