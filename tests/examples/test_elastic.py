"""Elastic Horovod: a rank is killed, another one takes its place, and the training is the one that nobody disturbed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.child import environment
from tests.distribute.job import TIMEOUT, Job, job
from tests.examples.programs import EXAMPLES, losses
from tests.versions import KERAS_3, needs_horovod

TOOLS = Path(sys.executable).parent
PATHS = {"PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "PYTHON": sys.executable}
STEPS = ("--steps", "200")
pytestmark = [
    pytest.mark.skipif(KERAS_3, reason="the example is written for Keras 2, as Horovod is"), pytest.mark.rest,
    needs_horovod,
]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, float]:
    """The losses of a job that nobody disturbs, on one card."""
    line = [str(TOOLS / "habana-tf"), "run", "-n", "1", "--strategy", "horovod", str(EXAMPLES / "elastic/train.py")]
    done = subprocess.run(
        [*line, *STEPS, "--pause", "0"], env=environment(**PATHS), capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return losses(done.stdout)


def wait_for(running: Job, pattern: str) -> re.Match[str]:
    end = time.monotonic() + TIMEOUT
    while not (found := re.search(pattern, running.output(0))):
        assert time.monotonic() < end and running.processes[0].poll() is None, running.everything()
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_replaced_and_training_goes_on(victim: int, undisturbed: dict[int, float]) -> None:
    """Rank 0 has the coordinator and the prints; when it is killed the other one becomes rank 0."""
    with job("") as running:
        running.start([str(EXAMPLES / "elastic" / "run_elastic.sh"), *STEPS, "--pause", "0.1"], **PATHS)
        process = int(wait_for(running, rf"rank {victim} of 2, process (\d+), begins at step 0")[1])
        wait_for(running, "step 20/")
        os.kill(process, signal.SIGKILL)
        assert running.wait() == [0], running.everything()
        said = running.output(0)
        assert running.left() == []
    begun = [(int(rank), int(size), int(step)) for rank, size, step in
             re.findall(r"rank (\d) of (\d), process \d+, begins at step (\d+)", said)]  # fmt: skip
    alone = [step for _, size, step in begun if size == 1]
    again = sorted((rank, step) for rank, size, step in begun if size == 2 and step)
    assert len(alone) == 1 and alone[0] >= 20 and alone[0] % 10 == 0, "from a commit"
    assert [rank for rank, _ in again] == [0, 1] and again[0][1] == again[1][1] > alone[0], begun
    disturbed = losses(said)
    assert undisturbed.keys() == disturbed.keys() and len(disturbed) == 20
    # Sums over ranks round otherwise, and 200 steps of Adam make more of it.
    assert all(abs(undisturbed[k] - disturbed[k]) < 0.02 for k in disturbed), (undisturbed, disturbed)
    assert float(re.findall(r"test accuracy: ([\d.]+)", said)[-1]) > 90
