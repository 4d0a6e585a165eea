"""`habana-tf trace`: all launches of a program and of its ranks, in one file that a viewer can take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.child import environment
from tests.versions import needs_horovod, workers_fit

PROGRAM = """
import sys
import tensorflow as tf
from habana_tf import load_habana_module
from habana_frameworks.tensorflow.multinode_helpers import comm_rank
load_habana_module()
from habana_tf._native import _bridge
before = _bridge.counters()["launches"]
w = tf.Variable(tf.ones([32, 8]))

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.nn.relu(x @ w) ** 2)
    w.assign_sub(0.01 * tape.gradient(y, w))
    return y

with tf.device("/HPU:0"):
    for n in (16, 16, 16, 24):
        step(tf.ones([n, 32]))
print("launches of rank", comm_rank(), _bridge.counters()["launches"] - before)
sys.exit(int(sys.argv[1]))
"""


def command(*words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "habana_tf.cli", "trace", *words]
    return subprocess.run(run, env=environment(**extra), capture_output=True, text=True, timeout=300)


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(PROGRAM)
    return str(tmp_path / "program.py")


def launched(stdout: str) -> dict[int, int]:
    """Launches that the runtime counted, by rank."""
    words = [line.split("launches of rank ")[1].split() for line in stdout.splitlines() if "launches of rank" in line]
    return {int(rank): int(count) for rank, count in words}


def drawn(path: Path) -> tuple[Counter[str], dict[str, Any]]:
    """Launches by the process they are drawn in, and the whole trace."""
    trace = json.loads(path.read_text())
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    return Counter(names[e["pid"]] for e in trace["traceEvents"] if e.get("cat") == "launch"), trace


@pytest.mark.slow
def test_a_program_is_traced_and_its_exit_code_returned(program: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = command("-o", str(out), program, "3")
    assert done.returncode == 3, done.stderr
    found, trace = drawn(out)
    (host,) = (n for name, n in found.items() if name.startswith("host"))
    (card,) = (n for name, n in found.items() if "gaudi2 as predicted" in name)
    assert host == card >= launched(done.stdout)[0] >= 4
    assert f"{host} launches of 1 rank" in done.stderr
    kernels = sorted((e for e in trace["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    products = [e for e in kernels if any(op.startswith("MatMul ") for op in e["args"]["ops"])]
    assert len(products) == 8  # one forward and one backward in each of four steps
    for rows, some in ((16, products[:6]), (24, products[6:])):
        assert all(2 * rows * 32 * 8 <= e["args"]["flops"] <= 3 * rows * 32 * 8 for e in some)
    compiled = [e["name"] for e in trace["traceEvents"] if e.get("cat") == "compile"]
    assert any(name.startswith("compile cluster_") for name in compiled)


@pytest.mark.slow
def test_ops_on_the_cpu_stand_between_the_launches(program: str, tmp_path: Path) -> None:
    """By the clock of the launches: TensorFlow's op that launches lies around the launch, and is left out itself."""
    text = Path(program).read_text()
    Path(program).write_text(text.replace("return y", "return tf.strings.as_string(y, name='written')"))
    done = command("-o", str(tmp_path / "out.json"), "--cpu-ops", program, "0")
    assert done.returncode == 0, done.stderr
    _, trace = drawn(tmp_path / "out.json")
    written = sorted(e["ts"] for e in trace["traceEvents"] if e["name"] == "written (AsString)")
    launches = sorted(e["ts"] + e["dur"] for e in trace["traceEvents"]
                      if e.get("cat") == "launch" and e["name"].startswith("cluster_") and e["pid"] == 1)  # fmt: skip
    assert len(written) == len(launches) == 4
    assert all(end <= at for end, at in zip(launches, written, strict=True))
    assert all(at <= end for at, end in zip(written, launches[1:], strict=False))
    assert not any("HpuLaunch" in e["name"] for e in trace["traceEvents"])


@pytest.mark.rest
@pytest.mark.slow
def test_ranks_are_in_one_file(program: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = command("-o", str(out), sys.executable, "-m", "habana_tf.cli", "run", "-n", "2", program, "0")
    assert done.returncode == 0, done.stderr
    found, trace = drawn(out)
    counted = launched(done.stdout)
    for rank in (0, 1):
        (host,) = (n for name, n in found.items() if name.startswith(f"rank {rank}: host"))
        assert host >= counted[rank] >= 4
    spans = {e["pid"]: (e["ts"], e["ts"] + e["dur"]) for e in trace["traceEvents"] if e.get("cat") == "launch"}
    (first, second) = (span for pid, span in sorted(spans.items()) if pid % 2)
    assert abs(first[0] - second[0]) < 120e6  # microseconds; by two clocks they would be days apart


SUMS = """
import numpy as np
import tensorflow as tf
import habana_tf
from habana_tf.distribute import HPUStrategy
habana_tf.load_habana_module()
with HPUStrategy().scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(4)])
    model.compile("sgd", "mse")
model.fit(np.ones([64, 8], "f"), np.ones([64, 4], "f"), batch_size=16, verbose=0)
"""


@workers_fit
@pytest.mark.slow
def test_ranks_wait_for_each_other_at_one_time(tmp_path: Path) -> None:
    """No rank leaves a sum before the last has come to it: so it must look by the common clock."""
    (tmp_path / "sums.py").write_text(SUMS)
    out = tmp_path / "out.json"
    run = [sys.executable, "-m", "habana_tf.cli", "run", "-n", "2", str(tmp_path / "sums.py")]
    done = command("-o", str(out), *run)
    assert done.returncode == 0, done.stderr
    _, trace = drawn(out)
    waits = [e for e in trace["traceEvents"] if e.get("cat") == "wait"]
    by_rank = [sorted((e["ts"], e["ts"] + e["dur"]) for e in waits if e["pid"] == pid) for pid in (1, 3)]
    assert len(by_rank[0]) == len(by_rank[1]) >= 4  # at least one per step
    for (start, end), (other_start, other_end) in zip(*by_rank, strict=True):
        assert max(start, other_start) <= min(end, other_end)
    on_cards = _sums_of_cards(trace)
    assert on_cards[0] == on_cards[1], "the cards meet too"
    assert [e[2] for e in on_cards[0]].count(4 * (8 * 4 + 4)) == 4, "weights and bias of each of four steps"


def _sums_of_cards(trace: dict[str, Any]) -> list[list[tuple[float, float, int]]]:
    """(begin, length, bytes) on the NIC of both cards."""
    found = [e for e in trace["traceEvents"] if e.get("cat") == "NIC"]
    return [[(e["ts"], e["dur"], e["args"]["bytes"]) for e in found if e["pid"] == pid] for pid in (2, 4)]


HOROVOD = """
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd
import habana_tf
habana_tf.load_habana_module()
hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Dense(4)])
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(0.1)), "mse")
model.fit(np.ones([64, 8], "f"), np.ones([64, 4], "f"), batch_size=16, verbose=0)
"""


@needs_horovod
@workers_fit
@pytest.mark.slow
@pytest.mark.rest
def test_horovod_s_sums_are_on_the_cards_network(tmp_path: Path) -> None:
    """The gradients of four steps, which the hosts sum by themselves."""
    (tmp_path / "sums.py").write_text(HOROVOD)
    out = tmp_path / "out.json"
    done = command("-o", str(out), "horovodrun", "-np", "2", sys.executable, str(tmp_path / "sums.py"))
    assert done.returncode == 0, done.stderr
    _, trace = drawn(out)
    on_cards = _sums_of_cards(trace)
    assert on_cards[0] == on_cards[1]
    assert [e[2] for e in on_cards[0]].count(4 * (8 * 4 + 4)) == 4


def test_what_loads_no_hpu_leaves_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("import sys; sys.exit(5)")
    done = command("-o", str(tmp_path / "out.json"), str(tmp_path / "nothing.py"))
    assert done.returncode == 5 and "it never loaded HPU" in done.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["missing.py"], "there is no file missing.py"),
        (["no-such-program"], "no-such-program cannot be started: No such file"),
        (["-o", "/no/such/folder/t.json", "true"], "no folder that can be written to"),
    ],
)
def test_wrong_usage(words: list[str], said: str) -> None:
    done = command(*words)
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.slow
def test_habana_profile_needs_no_command(program: str, tmp_path: Path) -> None:
    for value, files in (("profile_api_light", 0), ("1", 1)):
        done = forked.run([program, "0"], environment(HABANA_PROFILE=value), 300, tmp_path, hpu=True)
        assert done.returncode == 0, done.stderr
        written = list(tmp_path.glob("default_profiling_*.json"))
        assert len(written) == files
    found, _ = drawn(written[0])
    assert max(found.values()) >= launched(done.stdout)[0]
