"""Horovod with HPU, under mpirun and horovodrun, in the idioms that scripts for Gaudi use."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

import pytest

from tests.distribute.job import gloo, job, run_gloo, run_mpi
from tests.versions import needs_horovod

pytestmark = needs_horovod

OPERATIONS = """
import sys
import numpy as np
import horovod.tensorflow as hvd
import tensorflow as tf
import habana_tf

if "before" in sys.argv:
    habana_tf.load_habana_module()
hvd.init()
habana_tf.load_habana_module()
rank, size = hvd.rank(), hvd.size()
assert (hvd.local_rank(), hvd.local_size()) == (rank, size) and hvd.is_initialized()
ranks = list(range(size))

with tf.device("/HPU:0"):
    x = tf.constant([1.0, 2.0]) * (rank + 1.0)
    assert x.device.endswith("HPU:0")
    for how in (lambda f: f, tf.function):
        total = how(lambda x: hvd.allreduce(x, op=hvd.Sum) * 1.0)(x)
        assert total.device.endswith("HPU:0"), total.device
        np.testing.assert_array_equal(total, np.array([1, 2]) * sum(r + 1 for r in ranks))
        mean = np.array([1, 2]) * np.mean([r + 1 for r in ranks])
        np.testing.assert_allclose(how(lambda x: hvd.allreduce(x))(x), mean)
        half = how(lambda x: hvd.allreduce(x, op=hvd.Average, compression=hvd.Compression.fp16))(x)
        np.testing.assert_allclose(half, mean, rtol=1e-3)
        mine = tf.fill([rank + 1, 2], float(rank))
        gathered = how(lambda m: hvd.allgather(m))(mine)
        np.testing.assert_array_equal(gathered, np.concatenate([np.full((r + 1, 2), r) for r in ranks]))
        np.testing.assert_array_equal(how(lambda x: hvd.broadcast(x, root_rank=size - 1))(x), np.array([1, 2]) * size)
        grouped = how(lambda x: hvd.grouped_allreduce([x, x + 1], op=hvd.Sum))(x)
        np.testing.assert_array_equal(grouped[1], np.array([1, 2]) * sum(r + 1 for r in ranks) + size)
    assert int(hvd.broadcast(0, 0)) == 0  # a barrier in Habana's examples

    table = tf.Variable(tf.ones([4, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [rank % 4, 3]))
    sparse = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [table])[0]
    assert isinstance(sparse, tf.IndexedSlices)
    counts = np.zeros(4)
    for r in ranks:
        counts[[r % 4, 3]] += 1
    np.testing.assert_array_equal(tf.convert_to_tensor(sparse), np.repeat(counts[:, None], 2, axis=1))

    weights = tf.Variable(tf.fill([3], float(rank)))
    hvd.broadcast_variables([weights], root_rank=0)
    np.testing.assert_array_equal(weights, [0, 0, 0])
    assert weights.device.endswith("HPU:0")

    state = hvd.elastic.TensorFlowState(variables=[weights], batch=rank)
    seen = []

    @hvd.elastic.run
    def train(state):
        while state.batch < 3:
            weights.assign_add(hvd.allreduce(tf.ones([3]), op=hvd.Sum))
            state.batch += 1
            seen.append(state.batch)
            state.commit()

    train(state)
    assert seen == [1, 2, 3]  # rank 0's state is everybody's
    np.testing.assert_array_equal(weights, [3 * size] * 3)

    for _ in range(rank + 1):  # the ranks have different numbers of steps
        late = hvd.allreduce(tf.constant(1.0), op=hvd.Sum)
    assert float(late) == size - rank
    hvd.join()
report(rank, True)
"""


@pytest.mark.slow
def test_operations() -> None:
    """Over Gloo with load_habana_module() before hvd.init(); test_horovodrun has it over MPI and after."""
    assert run_gloo(OPERATIONS, 2, "before") == [True, True]


KERAS = """
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd

hvd.init()
assert int(hvd.broadcast(0, 0)) == 0
rank, size = hvd.rank(), hvd.size()
tf.keras.utils.set_random_seed(rank)  # different weights, until they are broadcast
x = np.random.default_rng(0).normal(size=(120, 8)).astype(np.float32)
y = (x.sum(axis=1) > 0).astype(np.int64)
model = tf.keras.Sequential([
    tf.keras.layers.Input((8,)), tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(2),
])
optimizer = tf.keras.optimizers.legacy.SGD(0.1 * size)
if size > 1:
    optimizer = hvd.DistributedOptimizer(optimizer)
model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1 * size, warmup_epochs=1, verbose=0),
]
history = model.fit(x[rank::size], y[rank::size], batch_size=16, epochs=3, callbacks=callbacks, verbose=0).history
loss, accuracy = model.evaluate(x, y, verbose=0)
assert model.trainable_variables[0].device.endswith("HPU:0")
value = [float(each) for each in history["loss"]]
report(rank, {"size": size, "loss": value, "weights": [w.tobytes().hex() for w in model.get_weights()]})
"""


@pytest.mark.rest
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_keras_script_that_never_loads_hpu(workers: int) -> None:
    """`python -m habana_tf script.py` in the shape of Habana's example_hvd.py; one rank works too."""
    ranks = run_mpi(KERAS, workers, python=["-m", "habana_tf"])
    assert [rank["size"] for rank in ranks] == [workers] * workers
    assert all(rank == ranks[0] for rank in ranks)  # averaged losses, and weights to the bit
    assert ranks[0]["loss"][-1] < ranks[0]["loss"][0]


FUNCTION = """
import numpy as np
import tensorflow as tf
from habana_frameworks.tensorflow import load_habana_module

load_habana_module()
import horovod.tensorflow as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
x = np.random.default_rng(rank).normal(size=(76, 6, 6, 1)).astype(np.float32)
y = (x.mean(axis=(1, 2, 3)) > 0).astype(np.int64)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)  # the last batch has 12


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layers_ = [
            tf.keras.layers.Conv2D(8, 3, activation="relu"), tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2),
        ]

    def call(self, x):
        for layer in self.layers_:
            x = layer(x)
        return x


model = Net()
entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.legacy.Adam(0.01))
mean = tf.keras.metrics.Mean()
model(x[:1])
optimizer._create_all_weights(model.trainable_variables)


def broadcast():
    hvd.broadcast_variables(model.variables, root_rank=0)
    hvd.broadcast_variables(optimizer.variables(), root_rank=0)


@tf.function
def train_step(images, labels, step):
    tf.cond(tf.equal(step, 0), broadcast, lambda: None)
    with tf.GradientTape() as tape:
        loss = entropy(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables), experimental_aggregate_gradients=True)
    mean(loss)


step, losses = 0, []
for epoch in range(3):
    mean.reset_states()
    for images, labels in data:
        train_step(images, labels, tf.constant(step, tf.int64))
        step += 1
    losses.append(float(mean.result()))
assert losses[-1] < losses[0], losses
report(rank, [w.tobytes().hex() for w in model.get_weights()])
"""


@pytest.mark.rest  # each of its parts is in test_operations or test_same_training.py
@pytest.mark.slow
def test_function_with_everything_at_once() -> None:
    """The shape of Habana's example_tf_func_hvd.py: broadcast in a cond, optimizer and tape both distributed."""
    one, two = run_gloo(FUNCTION, 2)
    assert one == two


FUSED = """
import sys
import horovod.tensorflow as hvd
import tensorflow as tf

if sys.argv[1] == "hpu":
    import habana_tf
    habana_tf.load_habana_module()
hvd.init()
variables = [tf.Variable(tf.ones([k + 1])) for k in range(8)]


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(v * v) for v in variables])
    for v, gradient in zip(variables, hvd.DistributedGradientTape(tape).gradient(loss, variables)):
        v.assign_sub(0.1 * gradient)


for _ in range(10):
    step()
rank = hvd.rank()
hvd.shutdown()  # writes the timeline's end
report(rank, [v.numpy().tolist() for v in variables])
"""


@pytest.mark.rest
@pytest.mark.slow
def test_gradients_go_through_as_few_exchanges_as_without_hpu() -> None:
    """By Horovod's timeline; the tensors of one exchange begin one after the other, before any goes on.

    Ten steps, but exchanges that follow each other at once look like one.
    """
    exchanges = {}
    for device in ("stock", "hpu"):
        with job(FUSED) as running:
            timeline = running.folder / "timeline"
            variables = {"HOROVOD_TIMELINE": str(timeline), "HOROVOD_CYCLE_TIME": "100"}  # milliseconds
            with gloo(running, 2, device, **variables):
                one, two = running.done(2)
            assert one == two and one[0] == [pytest.approx(0.8**10)]
            begun = re.findall(r'"ph": "B", "name": "(\w+)"', timeline.read_text())
        pairs = itertools.pairwise(begun)
        exchanges[device] = sum(after == "GLOO_ALLREDUCE" != before for before, after in pairs)
    assert exchanges["stock"] >= 5 and exchanges["hpu"] <= 1.5 * exchanges["stock"], exchanges


HOOKS = """
import numpy as np
import tensorflow as tf
import habana_tf
import horovod.tensorflow as hvd

habana_tf.load_habana_module()
hvd.init()
rank = hvd.rank()
v1 = tf.compat.v1
with tf.Graph().as_default():
    v1.enable_resource_variables()
    x = v1.placeholder(tf.float32, [None, 3])
    w = v1.get_variable("w", [3, 1], initializer=v1.constant_initializer(float(rank)))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
    step = v1.train.get_or_create_global_step()
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1))
    train = optimizer.minimize(loss, global_step=step)
    hooks = [hvd.BroadcastGlobalVariablesHook(0), v1.train.StopAtStepHook(last_step=5)]
    values = []
    with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            _, value = session.run([train, w], {x: np.random.default_rng(rank).normal(size=(4, 3))})
            values.append(value.tolist())
report(rank, values)
"""


@pytest.mark.slow
def test_session_with_broadcast_hook() -> None:
    one, two = run_gloo(HOOKS, 2)
    assert one == two and len(one) == 5 and one[0] != one[-1]


@pytest.mark.rest
@pytest.mark.slow
def test_horovodrun() -> None:
    """With MPI; test_killed_worker has horovodrun with Gloo."""
    with job(OPERATIONS) as running:
        binaries = Path(sys.executable).parent
        command = [str(binaries / "horovodrun"), "--mpi", "-np", "2", "-H", "localhost:2"]
        variables = {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "OMPI_MCA_mpi_yield_when_idle": "1"}
        running.start([*command, sys.executable, "script.py", "after"], **variables)
        assert running.done(2) == [True, True]
