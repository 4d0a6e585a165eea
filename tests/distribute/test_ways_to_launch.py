"""Workers of HPUStrategy however they are launched: by mpirun, spawned, under Slurm, with scoped allocators."""

from __future__ import annotations

import sys

import pytest

from tests.distribute.job import free_ports, job, mpirun, needs_mpi, run

SCOPED = """
import tensorflow as tf
from tensorflow.python.eager import context
from habana_frameworks.tensorflow import load_habana_module
from habana_frameworks.tensorflow.distribute import HPUStrategy

load_habana_module()
tf.config.optimizer.set_experimental_options({"scoped_allocator_optimization": True})
context.context()._collective_scoped_allocator_enabled_ops = [
    "HorovodAllreduce", "HpuCollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3",
]
strategy = HPUStrategy()
rank = strategy.cluster_resolver.task_id
one_by_one = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=1)
with strategy.scope():
    variables = [tf.Variable(tf.fill([n], float(n))) for n in (3, 3, 3, 5, 5, 7, 64)]


@tf.function
def step():
    def replica():
        mine = [v * (rank + 1.0) for v in variables]
        return tf.distribute.get_replica_context().all_reduce("sum", mine, options=one_by_one)

    return strategy.run(replica)


report(rank, [sorted(set(total.numpy().tolist())) for total in step()])
"""


@pytest.mark.slow
def test_scoped_allocators_as_habanas_resnet_asks_for_them() -> None:
    sums = [[3.0 * n] for n in (3, 3, 3, 5, 5, 7, 64)]
    assert run(SCOPED, 2) == [sums, sums]


MPI = """
import os
rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
ports = json.loads(os.environ["PORTS"])
os.environ["TF_CONFIG"] = json.dumps({
    "cluster": {"worker": [f"localhost:{port}" for port in ports]}, "task": {"type": "worker", "index": rank},
})
import tensorflow as tf
import habana_frameworks.tensorflow as htf
from habana_frameworks.tensorflow.distribute import HPUStrategy

htf.load_habana_module()
strategy = HPUStrategy()
assert strategy.num_replicas_in_sync == size
with strategy.scope():
    v = tf.Variable(3.0)


@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", v * (rank + 1.0)))


report(rank, float(step()))
"""


@pytest.mark.rest
@needs_mpi
def test_mpirun_with_a_script_that_sets_tf_config() -> None:
    with job(MPI) as running:
        running.start(mpirun(2, sys.executable, "script.py"), PORTS=str(free_ports(2)))
        assert running.done(2) == [9.0, 9.0]


SPAWN = """
import multiprocessing, os, sys


def work(rank, size, ports, barrier):
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": [f"localhost:{port}" for port in ports]}, "task": {"type": "worker", "index": rank},
    })
    os.environ["HLS_MODULE_ID"] = str(rank)
    import tensorflow as tf
    from habana_tf.distribute import HPUStrategy

    barrier.wait()
    strategy = HPUStrategy()
    with strategy.scope():
        v = tf.Variable(3.0)

    @tf.function
    def step():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", v * (rank + 1.0)))

    report(rank, float(step()))


if __name__ == "__main__":
    context, ports = multiprocessing.get_context("spawn"), json.loads(sys.argv[1])
    barrier = context.Barrier(len(ports))
    workers = [context.Process(target=work, args=(k, len(ports), ports, barrier)) for k in range(len(ports))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(any(worker.exitcode for worker in workers))
"""


@pytest.mark.rest
@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_spawned_workers(workers: int) -> None:
    with job(SPAWN) as running:
        running.start([sys.executable, "script.py", str(free_ports(workers))])
        assert running.done(workers) == [3.0 * sum(range(1, workers + 1))] * workers


SLURM = """
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
    port_base=int(os.environ["PORT"]), gpus_per_node=2, gpus_per_task=1, auto_set_gpu=False
)
strategy = HPUStrategy(cluster_resolver=resolver)
assert strategy.num_replicas_in_sync == 1
with strategy.scope():
    v = tf.Variable(3.0)
assert v.device == "/job:worker/replica:0/task:0/device:HPU:0", v.device
report(0, True)
"""


def test_slurm_resolver_of_tensorflow() -> None:
    (port,) = free_ports(1)
    slurm = {"PROCID": "0", "STEP_NUM_TASKS": "1", "STEP_NODELIST": "localhost", "STEP_TASKS_PER_NODE": "1"}
    with job(SLURM) as running:
        variables = {f"SLURM_{name}": value for name, value in slurm.items()}
        running.script(PORT=str(port), **variables)
        assert running.done(1) == [True]
