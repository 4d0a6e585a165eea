"""Jobs over two machines of two cards each: they train, and they end when a machine is cut off or a rank is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.child import environment
from tests.launcher.hosts import Host, hosts, needs_namespaces
from tests.launcher.jobs import wait_for
from tests.versions import needs_horovod, workers_fit

pytestmark = needs_namespaces

ENDS_WITHIN = 120.0
"""Seconds from the loss of a rank or a machine to the end of the job, as docs/guides/several-machines.md states."""

TRAIN = """
    import os, sys
    from pathlib import Path
    import numpy as np
    import tensorflow as tf
    {start}
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    tf.keras.utils.set_random_seed(1)
    rank = int(os.environ["HABANA_SIM_RANK"])
    (folder / f"{{rank}}.part").write_text(str(os.getpid()))
    class Told(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 2:
                (folder / f"{{rank}}.part").rename(folder / str(rank))
    data = np.random.default_rng(0)
    x = data.random((64, 8), dtype=np.float32)
    y = x.sum(axis=1, keepdims=True)
    pairs = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)
    {model}
    model.fit(pairs, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[Told(), *callbacks])
    print("weights", float(sum(np.abs(w).sum() for w in model.get_weights())), flush=True)
"""

MODEL = """
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, "relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
    model.compile({optimizer}, "mse")
"""

HPU = TRAIN.format(
    start="from habana_tf.distribute import HPUStrategy; strategy = HPUStrategy()",
    model="with strategy.scope():"
    + textwrap.indent(MODEL.format(optimizer="tf.keras.optimizers.SGD(0.01)"), "    ")
    + "\n    callbacks = []",
)
HOROVOD = TRAIN.format(
    start="import habana_tf; habana_tf.load_habana_module(); import horovod.tensorflow.keras as hvd; hvd.init()",
    model=MODEL.format(optimizer="hvd.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(0.01))").lstrip()
    + "    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]",
)
PROGRAMS = [
    pytest.param("hpu", HPU, id="hpu", marks=workers_fit),
    pytest.param("horovod", HOROVOD, id="horovod", marks=[workers_fit, needs_horovod]),
]
"""In `make test` ranks on two machines train too, until one is lost."""


LOSSES = [
    pytest.param("hpu", HPU, "machine", id="hpu-machine", marks=workers_fit),
    pytest.param("horovod", HOROVOD, "rank", id="horovod-rank", marks=[workers_fit, needs_horovod, pytest.mark.rest]),
    pytest.param("hpu", HPU, "rank", id="hpu-rank", marks=[workers_fit, pytest.mark.rest]),
    pytest.param(
        "horovod", HOROVOD, "machine", id="horovod-machine", marks=[workers_fit, needs_horovod, pytest.mark.rest]
    ),
]
"""The greater loss in `make test`; what the launcher does about all of them is one way."""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[list[Host], Path]]:
    with hosts(2, tmp_path) as made:
        yield made


@contextmanager
def started(
    strategy: str, script: str, steps: int, machines: tuple[list[Host], Path], folder: Path, count: int
) -> Iterator[subprocess.Popen[str]]:
    program = folder / "train.py"
    program.write_text(textwrap.dedent(script))
    made, shell = machines
    words = ["run", "-n", str(count), "--strategy", strategy, "--nodes", ",".join(h.address for h in made)]
    job = subprocess.Popen(
        [sys.executable, "-m", "habana_tf.cli", *words, "--rsh", str(shell), str(program), str(folder), str(steps)],
        env=environment(HABANA_SIM_CARDS="2", HABANA_SIM_THREADS="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield job
    finally:
        job.kill()


@pytest.mark.rest
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("strategy,script", PROGRAMS)
def test_ranks_on_two_machines_train_as_one(
    strategy: str, script: str, count: int, machines: tuple[list[Host], Path], tmp_path: Path
) -> None:
    with started(strategy, script, 10, machines, tmp_path, count) as job:
        out, err = job.communicate(timeout=300)
    assert job.returncode == 0, err[-4000:]
    weights = [line.split()[-1] for line in out.splitlines() if "weights" in line]
    assert len(weights) == count and len(set(weights)) == 1


@pytest.mark.parametrize("strategy,script,loss", LOSSES)
def test_the_loss_of_a_rank_or_a_machine_ends_the_job(
    strategy: str, script: str, loss: str, machines: tuple[list[Host], Path], tmp_path: Path
) -> None:
    with started(strategy, script, 10**6, machines, tmp_path, 2) as job:
        pids = [wait_for(tmp_path / rank, seconds=240) for rank in ("0", "1")]
        if loss == "rank":
            os.kill(pids[1], signal.SIGKILL)
        else:
            machines[0][1].cut()
        begin = time.monotonic()
        _, err = job.communicate(timeout=ENDS_WITHIN + 60)
    print(f"{strategy}, {loss} lost: the job ended after {time.monotonic() - begin:.1f} s\n{err[-4000:]}")
    assert time.monotonic() - begin < ENDS_WITHIN
    assert job.returncode != 0
    if loss == "rank":
        assert f"rank 1 on {machines[0][1].address} was ended by SIGKILL" in err
        assert "cannot be reached" not in err
    else:  # the agents say it: ssh, which here is not cut off, would end and so tell the launcher
        ends = [f"rank {rank} on {machines[0][rank].address} cannot be reached any more from" for rank in (0, 1)]
        assert any(end in err for end in ends)  # seen from the end that failed first
        assert strategy != "hpu" or "task:1" in err  # TensorFlow's own
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()


ELASTIC = """
    import os, sys, time
    from pathlib import Path
    import numpy as np
    import tensorflow as tf
    import habana_tf
    habana_tf.load_habana_module()
    import horovod.tensorflow as hvd
    import horovod.tensorflow.keras  # its elastic state
    hvd.init()
    folder, victim = Path(sys.argv[1]), sys.argv[2]
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(8,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.legacy.SGD(0.01)
    x = np.random.default_rng(hvd.rank()).random((16, 8), dtype=np.float32)

    @tf.function
    def step():
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((model(x) - 1.0) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @hvd.elastic.run
    def train(state):
        print("begins at", state.batch, "of", hvd.size(), flush=True)
        while state.batch < 20 or hvd.size() > 1:
            loss = float(step())
            state.batch += 1
            state.commit()
            if state.batch == 10 and os.environ["HOROVOD_HOSTNAME"] == victim:
                (folder / "part").write_text(str(os.getpid()))
                (folder / "part").rename(folder / "victim")
            time.sleep(0.1)
        print("ends at", state.batch, "of", hvd.size(), "loss", loss, flush=True)

    train(hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0))
"""


@pytest.mark.rest
@needs_horovod
def test_elastic_horovod_goes_on_without_a_lost_machine(machines: tuple[list[Host], Path], tmp_path: Path) -> None:
    made, shell = machines
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(ELASTIC))
    discovery = tmp_path / "discovery"
    discovery.write_text("#!/bin/sh\n" + "".join(f"echo {host.address}:1\n" for host in made))
    discovery.chmod(0o755)
    tools = Path(sys.executable).parent
    command = [tools / "horovodrun", "--gloo", "-np", "2", "--min-np", "1", "--max-np", "2", "--network-interface"]
    command += [made[0].interface, "--host-discovery-script", discovery]
    variables = environment(PATH=os.pathsep.join([str(shell.parent), str(tools), os.environ["PATH"]]))
    del variables[
        "HABANA_SIM_STATE_DIR"
    ]  # horovodrun would send it to all machines; the remote shell says which is which
    with open(tmp_path / "output", "w") as output:
        job = subprocess.Popen(
            [str(word) for word in (*command, sys.executable, program, tmp_path, made[1].address)],
            env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        os.kill(wait_for(tmp_path / "victim", seconds=240), signal.SIGKILL)
        code = job.wait(ENDS_WITHIN + 120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
    said = (tmp_path / "output").read_text()
    assert code == 0, said[-4000:]
    assert "begins at 0 of 2" in said
    ends = [line for line in said.splitlines() if "ends at" in line]
    assert len(ends) == 1 and " of 1 " in ends[0], ends
