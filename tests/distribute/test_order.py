"""Workers that come to their all-reduces in another order, with one thread of TensorFlow's: none waits for ever.

`HpuCollectiveReduce` keeps its thread while it waits, so a worker whose threads all wait for sums that the other has
not begun would never begin those that the other waits for. It cannot come to that in one function, whatever its ops
wait for: TensorFlow gives a function's stateful ops of one resource (the strategy's ordering token) control edges in
the order in which they were made, which is the same on all workers; calls of functions that hold such ops, and loops
around them, are ordered like the ops; the strategies of a process have one token; and the graph pass leaves collectives
and their control edges as they are. So a function has one sum under way, and by induction over that order the thread
that the next one needs is free. Without those edges (no token, and `HpuCollectiveReduce` not stateful; for calls, two
tokens) the same program waits for ever: that was tried.
"""

from __future__ import annotations

from tests.distribute.job import run

ONE_THREAD = """
import time
import numpy as np
import tensorflow as tf

tf.config.threading.set_inter_op_parallelism_threads(1)
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
assert tf.config.threading.get_inter_op_parallelism_threads() == 1
COUNT = 6
begun = []


def hop(x, k):
    if k not in begun:
        begun.append(int(k))
    time.sleep(0.01)
    return x


def late(x, k):
    \"\"\"x as it is, after as many ways from the card to the host and back as make the first on one worker the last on
    the other: TensorFlow's copies between devices leave the thread to whatever is ready.\"\"\"
    for _ in range(2 * (k if rank == 0 else COUNT - 1 - k)):
        with tf.device("/CPU:0"):
            y = tf.numpy_function(hop, [x, k], tf.float32, stateful=False)  # stateful ones would wait for each other
        y.set_shape(x.shape)
        x = y * 1.0
    return x


one_by_one = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=1)


def total(x):
    return tf.distribute.get_replica_context().all_reduce("sum", x, options=one_by_one)


@tf.function
def independent(x):
    return strategy.run(lambda: [total(late(x[: k + 1], k)) for k in range(COUNT)])


def called(k, by=strategy):
    return tf.function(lambda x: by.run(lambda: total(late(x[: k + 1], k))))


functions = [called(k) for k in range(COUNT)]


@tf.function
def calls(x):
    return [function(x) for function in functions]


@tf.function
def loop(x):
    sums = [x[: k + 1] for k in range(COUNT)]
    for _ in tf.range(2):
        sums = strategy.run(lambda: [total(late(x[: k + 1] + 0.0 * sums[k], k)) for k in range(COUNT)])
    return sums


other = HPUStrategy()
of_both = [called(k, by) for k, by in enumerate([strategy, other] * (COUNT // 2))]


@tf.function
def strategies(x):
    return [function(x) for function in of_both]


for step in (independent, calls, loop, strategies):
    begun.clear()
    for k, result in enumerate(step(tf.ones([COUNT]))):
        assert result.numpy().tolist() == [float(size)] * (k + 1), (step, k, result)
    assert len(begun) == COUNT - 1, begun
graph = independent.get_concrete_function(tf.ones([COUNT])).graph
kinds = [op.type for op in graph.get_operations() if "Collective" in op.type]
report(rank, kinds)
"""


def test_one_thread_is_enough_for_a_function_with_many_all_reduces() -> None:
    kinds = run(ONE_THREAD, 2)
    assert kinds == [["HpuCollectiveReduce"] * 6] * 2
