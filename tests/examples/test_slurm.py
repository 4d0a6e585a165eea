"""The batch script for Slurm, with the variables that `srun` gives its tasks: there is no Slurm here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from habana_tf import settings
from habana_tf.distribute import launcher_cluster
from habana_tf.hardware.cards import choice
from tests.child import environment

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "slurm" / "train.sbatch"

SRUN = """#!{python}
# What is documented of srun: tasks with their variables, their output with --label, the greatest of their codes.
import os, subprocess, sys
words = sys.argv[1:]
command = words[next(k for k, word in enumerate(words) if not word.startswith("-")):]
count = int(os.environ["TASKS"])
shared = {{"STEP_NUM_TASKS": count, "NODEID": 0, "STEP_TASKS_PER_NODE": count, "STEP_NODELIST": "localhost",
          "STEP_ID": 0}}
tasks = []
for rank in range(count):
    own = {{**shared, "PROCID": rank, "LOCALID": rank}}
    variables = {{f"SLURM_{{name}}": str(value) for name, value in own.items()}}
    tasks.append(subprocess.Popen([{python!r} if command[0] == "python" else command[0], *command[1:]],
                                  env={{**os.environ, **variables}}, stdout=subprocess.PIPE, text=True))
print("options", *words[:len(words) - len(command)])
for rank, task in enumerate(tasks):
    print(f"{{rank}}: {{task.communicate()[0]}}", end="")
sys.exit(max(task.returncode for task in tasks))
"""
PROGRAM = """
import os, sys
from habana_tf.hardware import claim, machine, ranks
place = ranks.launched()
print("rank", place.rank, "of", place.size, "card", claim.claim().module_id, "machine", machine.directory(),
      "recipes", os.environ["TF_RECIPE_CACHE_PATH"], "arguments", *sys.argv[1:], flush=True)
"""


pytestmark = pytest.mark.usefixtures("without_settings")


def options() -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", SCRIPT.read_text(), re.MULTILINE))


def test_its_tasks_are_one_job_with_a_card_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ranks of the script's hosts make the same table of workers, and no two of a host get the same card."""
    nodes, tasks = int(options()["nodes"]), int(options()["ntasks-per-node"])
    assert options()["distribution"] == "block"
    tables, cards = [], []
    for rank in range(nodes * tasks):
        node, local = divmod(rank, tasks)
        place = {"PROCID": rank, "STEP_NUM_TASKS": nodes * tasks, "LOCALID": local, "NODEID": node,
                 "STEP_TASKS_PER_NODE": f"{tasks}(x{nodes})", "STEP_NODELIST": f"node[1-{nodes}]", "JOB_ID": 4711,
                 "STEP_ID": 0}  # fmt: skip
        for name, value in place.items():
            monkeypatch.setenv(f"SLURM_{name}", str(value))
        resolver = launcher_cluster.resolver(listens=True)
        assert resolver is not None and resolver.task_id == rank
        tables.append(resolver.cluster_spec().as_dict()["worker"])
        cards.append((node, choice().cards[0].module_id))
    assert all(table == tables[0] for table in tables) and len(set(tables[0])) == nodes * tasks
    assert [address.split(":")[0] for address in tables[0]] == ["node1"] * tasks + ["node2"] * tasks
    assert cards == [(node, card) for node in range(nodes) for card in range(tasks)]


def test_the_script_starts_the_program_on_a_machine_of_the_job(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(python=sys.executable))
    srun.chmod(0o755)
    (tmp_path / "train.py").write_text(PROGRAM)
    env = environment(
        PATH=f"{tmp_path}:{os.environ['PATH']}", HOME=str(tmp_path), TMPDIR=str(tmp_path), TASKS="2",
        SLURM_JOB_ID="4711", SLURM_CPUS_PER_TASK="4",
    )  # fmt: skip
    done = subprocess.run(["bash", str(SCRIPT), "train.py", "--epochs", "a b"], cwd=tmp_path, env=env,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, *ranks = done.stdout.splitlines()
    assert said == "options --distribution=block --kill-on-bad-exit=1 --label"
    assert ranks == [
        f"{rank}: rank {rank} of 2 card {rank} machine {tmp_path}/habana_sim-4711 "
        f"recipes {tmp_path}/.cache/habana_tf/recipes arguments --epochs a b"
        for rank in range(2)
    ]


def test_the_page_names_only_variables_that_are_read() -> None:
    """And all of Slurm's that are."""
    named = set(re.findall(r"`(SLURM_\w+)`", (ROOT / "docs" / "slurm.md").read_text()))
    assert named == {setting.name for setting in settings.declared() if setting.name.startswith("SLURM_")}
