"""HPUStrategy over several workers: Keras, loops of one's own, data, checkpoints."""

from __future__ import annotations

import json

import pytest

from tests.child import python
from tests.distribute.job import TIMEOUT, run
from tests.versions import KERAS_3, workers_fit

LOOP = """
import numpy as np
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
ranks = range(size)
numbers = tf.data.Dataset.range(11 * size).map(lambda i: tf.cast(i, tf.float32)).batch(4 * size)


@tf.function(reduce_retracing=True)
def total(x):
    return strategy.reduce("sum", strategy.run(tf.reduce_sum, args=(x,)), axis=None)


seen, sums = [], []
for batch in strategy.experimental_distribute_dataset(numbers):  # the last batch is smaller
    seen += strategy.experimental_local_results(batch)[0].numpy().tolist()
    sums.append(float(total(batch)))
assert sum(sums) == sum(range(11 * size)) and len(sums) == 3, sums

data = strategy.distribute_datasets_from_function(
    lambda context: tf.data.Dataset.range(3).map(lambda i: tf.cast(i, tf.float32) + 10.0 * context.input_pipeline_id)
)
assert [float(strategy.reduce("mean", x, axis=None)) for x in data] == [i + 10.0 * np.mean(ranks) for i in range(3)]

mine = strategy.experimental_distribute_values_from_function(
    lambda context: tf.fill([context.replica_id_in_sync_group + 1, 2], float(context.replica_id_in_sync_group))
)
everyone = np.concatenate([np.full((r + 1, 2), r) for r in ranks])
np.testing.assert_array_equal(strategy.gather(mine, axis=0), everyone)


@tf.function
def inside(x):
    def replica(x):
        context, y = tf.distribute.get_replica_context(), x * 1.0
        return context.all_gather(y, axis=0), context.all_reduce("mean", tf.reduce_sum(y))

    return strategy.run(replica, args=(x,))


gathered, mean = inside(mine)
np.testing.assert_array_equal(gathered, everyone)
assert float(mean) == np.mean([2 * r * (r + 1) for r in ranks]) and mean.device.endswith("HPU:0"), mean.device

with strategy.scope():
    normalization = tf.keras.layers.BatchNormalization(synchronized=True)
    normalization.build((None, 3))
    first = tf.Variable(1.0 + rank)  # the first worker's value is everybody's
    counter = tf.Variable(
        0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM
    )
assert float(first.numpy()) == 1.0 and first.device.endswith("HPU:0")
x = np.random.default_rng(0).normal(1, 3, size=(8 * size, 3)).astype(np.float32)


@tf.function
def normalized(x):
    def replica(x):
        counter.assign_add(1.0 + tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32))
        return normalization(x, training=True)

    return strategy.run(replica, args=(x,))


y = normalized(tf.constant(x[8 * rank : 8 * rank + 8]))
expected = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
np.testing.assert_allclose(y, expected[8 * rank : 8 * rank + 8], atol=1e-5)
np.testing.assert_allclose(normalization.moving_mean, 0.01 * x.mean(axis=0), rtol=1e-4)
np.testing.assert_allclose(tf.convert_to_tensor(counter), sum(r + 1 for r in ranks))

checkpoint = tf.train.Checkpoint(v=first)
path = checkpoint.save(f"saved-{rank}/c")
first.assign(9.0)
checkpoint.restore(path)
assert float(first.numpy()) == 1.0
report(rank, seen)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.rest)])
def test_loops_and_data(workers: int) -> None:
    seen = run(LOOP, workers)
    assert sorted(n for each in seen for n in each) == list(range(11 * workers))  # each example on one worker


MODEL = """
import os, sys
import numpy as np
import tensorflow as tf

L = tf.keras.layers
x = np.random.default_rng(0).normal(size=(100, 6, 6, 1)).astype(np.float32)  # 100: the last batch is smaller
y = (x.mean(axis=(1, 2, 3)) > 0).astype(np.int64)


def make(**options):
    model = tf.keras.Sequential([
        L.Input((6, 6, 1)), L.Conv2D(4, 3, activation="relu"), L.Flatten(), L.Dense(8, activation="relu"), L.Dense(2),
    ])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **options)
    return model


tf.keras.utils.set_random_seed(1)
"""

STOCK = """
model = make()
history = model.fit(x, y, batch_size=32, epochs=3, shuffle=False, validation_data=(x, y), verbose=0).history
print(json.dumps([{k: [float(v) for v in vs] for k, vs in history.items()}, model.predict(x[:7], verbose=0).tolist()]))
"""

WORKER = """
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
with strategy.scope():
    model = make()
C = tf.keras.callbacks
rates = []
callbacks = [
    C.ModelCheckpoint("best/weights", save_weights_only=True), C.EarlyStopping(patience=3),
    C.LearningRateScheduler(lambda epoch, rate: rate), C.ReduceLROnPlateau(patience=3), C.TerminateOnNaN(),
    C.CSVLogger(f"log-{rank}.csv"), C.TensorBoard(f"board-{rank}"),
    C.LambdaCallback(on_epoch_end=lambda epoch, logs: rates.append(epoch)),
]
fitted = model.fit(x, y, batch_size=32, epochs=3, shuffle=False, validation_data=(x, y), verbose=0, callbacks=callbacks)
history = {k: [float(v) for v in vs] for k, vs in fitted.history.items() if k != "lr"}
assert rates == [0, 1, 2] and len(open(f"log-{rank}.csv").readlines()) == 4
shape = model.predict(x, batch_size=32, verbose=0).shape
assert shape == (100, 2), shape
evaluated = model.evaluate(x, y, batch_size=32, verbose=0)
np.testing.assert_allclose(evaluated, [history["val_loss"][-1], history["val_accuracy"][-1]], rtol=1e-5)
weights = [w.tobytes().hex() for w in model.get_weights()]
model.load_weights("best/weights")  # of the chief: the others write nothing that stays
assert weights == [w.tobytes().hex() for w in model.get_weights()]
few = model.predict(x[:7], verbose=0).tolist()

tf.keras.utils.set_random_seed(1)
trained = model.get_weights()
with strategy.scope():
    model = make(steps_per_execution=2)  # steps in a loop of the graph: sums of one key, one after the other
model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0)
for ours, theirs in zip(model.get_weights(), trained):
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


class Interrupted(Exception):
    pass


def stop(epoch, logs):
    if epoch == 2:
        raise Interrupted


started = []
for attempt in range(2):
    with strategy.scope():
        model = make()
    begins = C.LambdaCallback(on_epoch_begin=lambda epoch, logs: started.append(epoch))
    ends = C.LambdaCallback(on_epoch_begin=stop if attempt == 0 else None)
    try:
        model.fit(x, y, batch_size=32, epochs=4, shuffle=False, verbose=0,
                  callbacks=[C.BackupAndRestore("backup"), begins, ends])
    except Interrupted:
        assert attempt == 0
assert started == [0, 1, 2, 2, 3], started  # goes on where it was interrupted
report(rank, [history, few, weights, [w.tobytes().hex() for w in model.get_weights()]])
"""


@pytest.mark.rest  # test_same_training.py trains so, test_strategy.py with a smaller last batch
@pytest.mark.slow
@workers_fit
def test_keras() -> None:
    """fit, evaluate and predict with callbacks, as one process with the whole batch does it."""
    stock = python("import json\n" + MODEL + STOCK, imported=True, timeout=TIMEOUT)
    history, few = json.loads(stock.stdout.splitlines()[-1])
    one, two = run(MODEL + WORKER, 2)
    assert one[2:] == two[2:] and one[0] == two[0]
    assert one[0].keys() == history.keys()
    for name, values in history.items():
        assert one[0][name] == pytest.approx(values, rel=1e-3), name
    for ours, theirs in zip(one[1], few, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-3)


EMPTY = """
import numpy as np
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((3,)), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
model.fit(x, x.sum(axis=1), batch_size=8, epochs=2, shuffle=False, verbose=0)
weights = model.get_weights()
assert all(np.isfinite(w).all() for w in weights), weights
report(strategy.cluster_resolver.task_id, [w.tolist() for w in weights[:2]])
"""


@workers_fit
def test_a_worker_without_an_example_in_the_last_batch_changes_no_statistics() -> None:
    """Nine examples in batches of eight: of the second the first worker has all."""
    one, two = run(EMPTY, 2)
    assert one == two


REFUSED = """
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
with strategy.scope():
    model = make()
for name in ("fit", "evaluate", "train_on_batch"):
    try:
        getattr(model, name)(x, y)
    except RuntimeError as error:
        assert name + "()" in str(error) and "several workers" in str(error), error
    else:
        raise SystemExit(f"{name} gave no error")
report(strategy.cluster_resolver.task_id, True)
"""


@pytest.mark.skipif(not KERAS_3, reason="Keras 2 can")
def test_keras_3_says_that_it_cannot() -> None:
    assert run(MODEL + REFUSED, 2) == [True, True]
