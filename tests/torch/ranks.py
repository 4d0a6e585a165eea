"""Runs a script as the ranks of a job of PyTorch, one simulated card each."""

from __future__ import annotations

import textwrap
from typing import Any

from tests.distribute.job import free_ports, job

PROLOGUE = """
import datetime, warnings
warnings.simplefilter("ignore", FutureWarning)
import torch
import torch.distributed as dist
import habana_frameworks.torch.core as htcore
import habana_frameworks.torch.distributed.hccl

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
hpu = torch.device("hpu")


def start(seconds=60):
    dist.init_process_group("hccl", timeout=datetime.timedelta(seconds=seconds))


def on_card(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(hpu)

"""


def variables(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank of a job on this host."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in places.items()}}


def run(script: str, size: int = 2, **settings: str) -> list[Any]:
    """The reports of the ranks, which must all succeed."""
    (port,) = free_ports(1)
    with job(PROLOGUE + textwrap.dedent(script)) as running:
        settings = {"TF_RECIPE_CACHE_PATH": str(running.folder / "recipes"), **settings}
        for rank in range(size):
            running.script(framework="torch", **variables(rank, size, port), **settings)
        return running.done(size)
