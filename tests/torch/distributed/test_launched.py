"""What a process is told of its place in a job, and each way to start one: the ranks meet, on cards of their own."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from habana_tf.hardware import ranks
from tests.child import python
from tests.distribute.job import free_ports, job, mpirun, needs_mpi
from tests.torch.child import HAS_TORCH, needs_torch

pytestmark = [needs_torch, pytest.mark.usefixtures("without_settings")]
if HAS_TORCH:
    from habana_tf.hardware.cards import CardError
    from habana_tf.torch.distributed.launched import initialize_distributed_hpu

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
OMPI = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "2",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}  # fmt: skip
OMPI_ALONE = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
              "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}  # fmt: skip
SLURM_ALONE = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
               "SLURM_STEP_TASKS_PER_NODE": "1"}  # fmt: skip
SLURM = {"SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "0", "SLURM_NODEID": "1",
         "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, (1, -1, -1)), (TORCHRUN, (4, 3, 1)), (OMPI, (6, 5, 2)), (SLURM, (8, 4, 0)), (OMPI | TORCHRUN, (4, 3, 1))],
)
def test_the_launcher_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int, int]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert initialize_distributed_hpu() == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, (None, None, None)), (TORCHRUN, ("3", "4", "1")), (OMPI, ("5", "6", "2")), (SLURM, ("4", "8", "0")),
     (OMPI | {"LOCAL_RANK": "7"}, ("5", "6", "7")), (OMPI_ALONE, (None,) * 3), (SLURM_ALONE, (None,) * 3)],
)  # fmt: skip
def test_the_ranks_are_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    names = "RANK", "WORLD_SIZE", "LOCAL_RANK"
    for name in names:
        monkeypatch.setenv(name, "")  # is taken back after the test
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = ranks.launched()
    ranks.tell()
    assert tuple(os.environ.get(name) for name in names) == expected
    assert ranks.launched() == before


def test_importing_habanas_modules_sets_the_ranks() -> None:
    """As optimum-habana looks for them, which takes a process without them for one that is alone."""
    program = """
        import os
        import habana_frameworks.torch
        print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"])
    """
    assert python(program, imported=True, **OMPI).stdout.split() == ["5", "6", "2"]


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed")
def test_a_job_of_one_process_is_alone() -> None:
    """To accelerate, which wants MASTER_ADDR of a process that has a local rank."""
    program = """
        import habana_frameworks.torch
        import accelerate
        state = accelerate.PartialState()
        print(state.distributed_type.value, state.num_processes, state.device)
    """
    assert python(program, imported=True, **OMPI_ALONE).stdout.split() == ["NO", "1", "hpu"]


def test_without_a_launcher_a_given_local_rank_chooses_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,6")
    monkeypatch.setenv("HLS_MODULE_ID", "")
    assert initialize_distributed_hpu(2, 1, 1) == (2, 1, 1)
    assert os.environ["HLS_MODULE_ID"] == "6"
    assert initialize_distributed_hpu(2, 0, 0) == (2, 0, 0) and os.environ["HLS_MODULE_ID"] == "6"  # asked for before
    monkeypatch.setenv("HLS_MODULE_ID", "")
    with pytest.raises(CardError, match="local rank 2 has no card: this process may use 2"):
        initialize_distributed_hpu(3, 2, 2)


SCRIPT = """
import os
import torch
import torch.distributed as dist
import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
from habana_tf.hardware.claim import held_card

world, rank, local = initialize_distributed_hpu()
os.environ.setdefault("MASTER_ADDR", "localhost")
os.environ.setdefault("MASTER_PORT", "29500")
dist.init_process_group("hccl", rank=rank, world_size=world)
t = torch.tensor([1.0 + rank]).to("hpu")
dist.all_reduce(t)
assert int(os.environ["LOCAL_RANK"]) == local
report(rank, [t.item(), held_card().module_id])
dist.destroy_process_group()
"""
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "way",
    [
        "torchrun", pytest.param("habana-tf", marks=pytest.mark.rest),
        pytest.param("mpirun", marks=[needs_mpi, pytest.mark.rest]),
    ],
)  # fmt: skip
def test_each_way_to_start_a_job(way: str) -> None:
    (port,) = free_ports(1)
    command = {
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}",
                     "script.py"],
        "habana-tf": [str(BIN / "habana-tf"), "run", "-n", "2", "--strategy", "torch", "script.py"],
        "mpirun": mpirun(2, sys.executable, "script.py"),
    }[way]  # fmt: skip
    with job(SCRIPT.replace("29500", str(port))) as running:
        running.start(command, HABANA_VISIBLE_MODULES="5,6")
        assert running.done(2) == [[3.0, 5], [3.0, 6]]
