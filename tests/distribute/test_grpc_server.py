"""Several strategies of one cluster in a process: folds of a cross-validation, a notebook's cell that is run again."""

from __future__ import annotations

import pytest

from tests.child import python
from tests.distribute.job import cluster, free_ports, run, run_srun
from tests.versions import workers_fit

SEVERAL = """
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

options = tf.distribute.experimental.CommunicationOptions


class Trained:
    def __init__(self, **how):
        self.strategy = HPUStrategy(communication_options=options(**how))
        assert self.strategy.num_replicas_in_sync == 2
        self.rank = self.strategy.cluster_resolver.task_id
        with self.strategy.scope():
            self.v = tf.Variable([1.0 + self.rank, 2.0])  # the first worker's value is everybody's
        assert self.v.device.endswith("HPU:0"), self.v.device

    @tf.function
    def _step(self, x):
        def replica(x):
            self.v.assign_add(tf.distribute.get_replica_context().all_reduce("sum", self.v * x))

        self.strategy.run(replica, args=(x,))

    def step(self):
        self._step(tf.constant(self.rank + 1.0))
        return self.v.numpy().tolist()


first = Trained()
values = [first.step()]
second = Trained()
values += [second.step(), first.step()]
third = Trained(implementation=tf.distribute.experimental.CommunicationImplementation.RING)
values += [third.step(), second.step(), first.step()]


@tf.function
def both():
    for each in (first, second, third):
        each._step(tf.constant(each.rank + 1.0))


both()
values += [each.v.numpy().tolist() for each in (first, second, third)]
data = tf.data.Dataset.range(4).batch(2)
values += [third.strategy.reduce("sum", each, axis=0).numpy().tolist()
           for each in third.strategy.experimental_distribute_dataset(data)]
report(first.rank, values)
"""

ONCE, TWICE, THRICE, OFTEN = ([1.0 * 4**k, 2.0 * 4**k] for k in (1, 2, 3, 4))
VALUES = [ONCE, ONCE, TWICE, ONCE, TWICE, THRICE, OFTEN, THRICE, TWICE, 1, 5]


def test_three_strategies_of_two_workers() -> None:
    assert run(SEVERAL, 2) == [VALUES, VALUES]


def test_under_srun() -> None:
    """The ports are the ranks' own choice: the second strategy finds its worker's taken, by its own server."""
    assert run_srun(SEVERAL, 2) == [VALUES, VALUES]


FOLDS = """
import numpy as np
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

x = np.random.default_rng(0).normal(size=(48, 4)).astype(np.float32)
layers, weights = tf.keras.layers, []
for fold in range(3):
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(1)
    strategy = HPUStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(3), layers.BatchNormalization(), layers.Dense(1)])
        model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    y = x.sum(axis=1)
    fitted = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=(x, y))
    weights.append([fitted.history, [w.ravel().tolist() for w in model.get_weights()]])
report(strategy.cluster_resolver.task_id, weights)
"""


@pytest.mark.rest
@pytest.mark.slow
@workers_fit
def test_folds_have_the_same_numbers() -> None:
    workers = run(FOLDS, 2)
    assert workers[0] == workers[1]
    assert all(fold == workers[0][0] for fold in workers[0])


def test_another_cluster_needs_another_process() -> None:
    mine, other = (f"localhost:{port}" for port in free_ports(2))
    python(
        """
        import sys
        import tensorflow as tf
        from habana_tf.distribute import HPUStrategy
        from habana_tf.distribute.launcher_cluster import ClusterError

        mine, other = sys.argv[1:]

        def resolver(workers, index=0):
            spec = tf.train.ClusterSpec({"worker": workers} if workers else {})
            return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=index)

        def check(strategy):
            with strategy.scope():
                v = tf.Variable(2.0)
            assert v.device.endswith("HPU:0"), v.device
            sum = lambda: tf.distribute.get_replica_context().all_reduce("sum", v * 3.0)
            assert float(tf.function(lambda: strategy.run(sum))()) == 6.0

        check(HPUStrategy(resolver([mine])))
        for workers, index, told in [
            ([other], 0, f"/job:worker/task:0 of the cluster {{'worker': ['{other}']}}"),
            ([mine, other], 1, f"/job:worker/task:1 of the cluster {{'worker': ['{mine}', '{other}']}}"),
            ([], 0, "one without a cluster"),
        ]:
            try:
                HPUStrategy(resolver(workers, index))
            except ClusterError as error:
                this = f"/job:worker/task:0 of the cluster {{'worker': ['{mine}']}}"
                assert f"this process is {this}, since" in str(error), error
                assert f"cannot make it {told}. Start another process" in str(error), error
            else:
                raise SystemExit("no error")
        check(tf.distribute.OneDeviceStrategy("device:HPU:0"))
        check(HPUStrategy(resolver([mine])))
        """,
        mine,
        other,
        imported=True,
    )


def test_a_cluster_after_a_strategy_without_one() -> None:
    (port,) = free_ports(1)
    python(
        """
        import os, sys
        import tensorflow as tf
        from habana_tf.distribute import HPUStrategy

        def made():
            strategy = HPUStrategy()
            with strategy.scope():
                v = tf.Variable(2.0)
            sum = lambda: tf.distribute.get_replica_context().all_reduce("sum", v * 3.0)
            return tf.function(lambda: strategy.run(sum))

        alone = made()
        assert float(alone()) == 6.0
        os.environ["TF_CONFIG"] = sys.argv[1]
        clustered = made()
        assert float(clustered()) == 6.0 and float(alone()) == 6.0
        """,
        cluster([port], 0),
        imported=True,
    )


def test_a_strategy_whose_server_could_not_start_is_made_again() -> None:
    """As in a notebook: the port was somebody's, the second time it is free."""
    (port,) = free_ports(1)
    python(
        """
        import socket, sys
        import tensorflow as tf
        from habana_tf.distribute import HPUStrategy

        with socket.socket() as taken:
            taken.bind(("", int(sys.argv[1])))
            taken.listen()
            try:
                HPUStrategy()
            except tf.errors.OpError:
                pass
            else:
                raise SystemExit("no error")
        strategy = HPUStrategy()
        assert strategy.extended._collective_key_base == 0
        assert float(strategy.reduce("sum", tf.constant(3.0), axis=None)) == 3.0
        """,
        str(port),
        imported=True,
        TF_CONFIG=cluster([port], 0),
    )
