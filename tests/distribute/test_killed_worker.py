"""A worker that is killed: the job ends by itself, soon, with an error that names the rank, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.distribute.job import TIMEOUT, Job, cluster, free_ports, job, mpirun
from tests.versions import needs_horovod, workers_fit

ENDS_WITHIN = 60.0
"""Seconds from the kill to the end of the job. TensorFlow's heartbeats take 10 s to miss a worker, and then the
worker that is left still has to end; the rest is for busy machines."""


STRATEGY = """
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
rank = strategy.extended._id_in_cluster
with strategy.scope():
    v = tf.Variable(tf.ones([100, 100]))


@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("mean", v * 2.0))


step()
report(rank, os.getpid())
while True:
    step()
"""

HOROVOD = """
import tensorflow as tf
import horovod.tensorflow as hvd
import habana_tf

habana_tf.load_habana_module()
hvd.init()
step = tf.function(lambda x: hvd.allreduce(x * 2.0))
x = tf.ones([100, 100])
step(x)
report(hvd.rank(), os.getpid())
while True:
    step(x)
"""


def kill_when_all_run(running: Job, victim: int) -> float:
    """Waits until both ranks train, kills one and gives the time."""
    reports = running.folder / "reports"
    end = time.monotonic() + TIMEOUT
    while not all((reports / str(rank)).exists() for rank in range(2)):
        assert time.monotonic() < end and all(p.poll() is None for p in running.processes), running.everything()
        time.sleep(0.1)
    time.sleep(1)
    os.kill(running.reports()[victim], signal.SIGKILL)
    return time.monotonic()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_strategy(victim: int) -> None:
    ports = free_ports(2)
    with job(STRATEGY) as running:
        for rank in range(2):
            variables = {"TF_CONFIG": cluster(ports, rank), "HLS_MODULE_ID": str(rank)}
            running.script(**variables)
        killed = kill_when_all_run(running, victim)
        codes = running.wait(ENDS_WITHIN)
        assert time.monotonic() - killed < ENDS_WITHIN
        assert codes[victim] == -signal.SIGKILL and codes[1 - victim] != 0
        assert f"task:{victim}" in running.output(1 - victim), running.everything()
        assert running.left() == []
        for port in ports:
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                free.bind(("localhost", port))


@pytest.mark.slow
def test_in_a_cluster_with_a_chief_the_lost_worker_is_named_as_tensorflow_names_it() -> None:
    """The chief is rank 0, the worker rank 1 but TensorFlow's /job:worker/task:0."""
    chief, worker = (f"localhost:{port}" for port in free_ports(2))
    with job(STRATEGY) as running:
        for rank, kind in enumerate(("chief", "worker")):
            task = {"cluster": {"chief": [chief], "worker": [worker]}, "task": {"type": kind, "index": 0}}
            running.script(TF_CONFIG=json.dumps(task), HLS_MODULE_ID=str(rank))
        kill_when_all_run(running, 1)
        running.wait(ENDS_WITHIN)
        lost = f"all-reduce: worker 0 (/job:worker/task:0, process {running.reports()[1]}) has ended"
        assert lost in running.output(0), running.everything()


RESTARTED = """
import signal, sys
import numpy as np
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
rank = strategy.cluster_resolver.task_id
x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
epochs = []


def begin(epoch, logs):
    epochs.append(epoch)
    if sys.argv[1] == "killed" and rank == 1 and epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)


callbacks = [tf.keras.callbacks.LambdaCallback(on_epoch_begin=begin)]
if sys.argv[1] != "whole":
    callbacks.insert(0, tf.keras.callbacks.BackupAndRestore("backup"))
model.fit(x, x.sum(axis=1), batch_size=16, epochs=4, shuffle=False, verbose=0, callbacks=callbacks)
report(rank, [epochs, [w.ravel().tolist() for w in model.get_weights()]])
"""


@pytest.mark.rest
@pytest.mark.slow
@workers_fit
def test_a_job_started_again_goes_on_from_its_backup() -> None:
    """Killed at the beginning of epoch 2; the second job ends with the weights of one that nobody killed."""
    with job(RESTARTED) as running:
        for how in ("killed", "again", "whole"):
            ports = free_ports(2)
            for rank in range(2):
                variables = {"TF_CONFIG": cluster(ports, rank), "HLS_MODULE_ID": str(rank)}
                running.script(how, **variables)
            codes = running.wait()[-2:]
            if how == "killed":
                assert codes[1] == -signal.SIGKILL and codes[0] != 0, running.everything()
                continue
            assert codes == [0, 0], running.everything()
            (epochs, weights), (others_epochs, _) = running.reports()
            if how == "again":
                assert epochs == others_epochs == [2, 3]
                restarted = weights
            else:
                assert epochs == [0, 1, 2, 3]
                assert restarted == weights


def _horovodrun() -> list[str]:
    run = Path(sys.executable).with_name("horovodrun")
    return [str(run), "--gloo", "-np", "2", "-H", "localhost:2", sys.executable, "script.py"]


@needs_horovod
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(
            lambda: mpirun(2, sys.executable, "script.py"), "process rank 1", id="mpirun", marks=pytest.mark.rest
        ),
        pytest.param(_horovodrun, "Process name: 1", id="horovodrun", marks=pytest.mark.rest),
    ],
)
def test_horovod(command: Callable[[], list[str]], words: str) -> None:
    with job(HOROVOD) as running:
        running.start(command())
        killed = kill_when_all_run(running, 1)
        (code,) = running.wait(ENDS_WITHIN)
        assert code != 0 and time.monotonic() - killed < ENDS_WITHIN
        assert words in running.output(0), running.everything()
        assert running.left() == []
