"""A rank of an example's job is killed: the line that the launcher says goes on from the checkpoint it says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.distribute.job import TIMEOUT, job
from tests.examples.programs import EXAMPLES, losses
from tests.versions import examples_run

TOOLS = Path(sys.executable).parent
pytestmark = [
    examples_run,
    pytest.mark.rest,
]


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all jobs here share: they run one program, which is compiled once."""
    return tmp_path_factory.mktemp("recipes")


@pytest.mark.parametrize("victim", [0, 1])
def test_the_line_that_is_said_goes_on(victim: int, tmp_path: Path, recipes: Path) -> None:
    """In 5 steps; the killed job would have taken 4,000."""
    words = ["--train_batch_size", "16", "--log_every", "1", "--save_every", "5", "--recipe_cache", str(recipes),
             "--model_dir", str(tmp_path), "--num_steps"]  # fmt: skip
    line = [str(TOOLS / "habana-tf"), "run", "-n", "2", str(EXAMPLES / "vit" / "train.py"), *words]
    with job("") as running:
        running.start([*line, "4000"])
        end = time.monotonic() + TIMEOUT
        while "step 12/" not in running.output(0):
            assert time.monotonic() < end and running.processes[0].poll() is None, running.everything()
            time.sleep(0.1)
        ranks = {}
        for pid in running.alive():
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ranks |= {rank: pid for rank in range(2) if f"HABANA_SIM_RANK={rank}".encode() in variables}
        os.kill(ranks[victim], signal.SIGKILL)
        assert running.wait() == [128 + signal.SIGKILL], running.everything()
        said = running.output(0)
        assert f"rank {victim} (process" in said and "was ended by SIGKILL" in said
        found = re.search(r"the job goes on from (\S+) by: habana-tf (.*)", said)
        assert found is not None, said
        assert running.left() == []
        step = int(found[1].rpartition("-")[2])
        assert found[1] == str(tmp_path / f"ckpt-{step}") and step >= 10 and step % 5 == 0
        again = shlex.split(found[2])
        assert again == [*line[1:], "4000"]
        running.start([line[0], *again[:-1], str(step + 5)])
        assert running.wait()[1] == 0, running.everything()
        assert f"Goes on from ckpt-{step}, step {step}" in running.output(1)
        assert min(losses(running.output(1))) == step + 1
