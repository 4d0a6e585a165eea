"""DistributedDataParallel: two processes train as one on the CPU does with all of the batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.torch.child import needs_torch
from tests.torch.ranks import run

pytestmark = needs_torch

TRAIN = """
import contextlib
import sys
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from habana_tf.cluster import left_to_cpu

STEPS = 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.linear, self.often = nn.Linear(64, 10), nn.Linear(3, 3)

    def forward(self, x, often=True):
        x = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        x = self.linear(x.flatten(1))
        return x + self.often(x[:, :3]).sum() if often else x


def batch(k):
    g = torch.Generator().manual_seed(k)
    return torch.randn(8, 1, 8, 8, generator=g), torch.randint(0, 10, (8,), generator=g)


def train(model, device, part, accumulate=1, often=lambda step: True, run=None):
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        for k in range(accumulate):
            x, y = batch(step * accumulate + k)
            waits = k < accumulate - 1 and isinstance(model, DistributedDataParallel)
            with model.no_sync() if waits else contextlib.nullcontext():
                out = (model if run is None else run)(x[part].to(device), often(step))
                (F.cross_entropy(out, y[part].to(device)) / accumulate).backward()
            htcore.mark_step()
        optimizer.step()
        htcore.mark_step()
    return model


def same_training(normalizes=False, compiled=False, accumulate=1, often=lambda step: True, **options):
    torch.manual_seed(0)
    alone = Net()
    torch.manual_seed(rank)  # other weights on each rank: those of rank 0 are to be everyone's
    shared = Net()
    if normalizes:
        shared = nn.SyncBatchNorm.convert_sync_batchnorm(shared)
    else:  # each rank would have statistics of its own
        alone.norm.eval(), shared.norm.eval()
    shared = DistributedDataParallel(shared.to(hpu), **options)
    run = torch.compile(shared, backend="hpu_backend") if compiled else None
    train(shared, hpu, slice(rank, None, size), accumulate, often, run)
    train(alone, torch.device("cpu"), slice(None), accumulate, often)
    for (name, a), b in zip(shared.module.state_dict().items(), alone.state_dict().values(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=2e-6, msg=lambda m: f"{name}: {m}")


start()
"""

WAYS = {
    "plain": "same_training()",
    "small buckets": "same_training(bucket_cap_mb=0.0001)",
    "bucket views": "same_training(gradient_as_bucket_view=True)",
    "static graph": "same_training(static_graph=True)",
    "unused parameters": """
same_training(find_unused_parameters=True, gradient_as_bucket_view=True, often=lambda step: step == 1)
""",
    "accumulation": "same_training(accumulate=2)",
    "synchronized statistics": "same_training(normalizes=True)",
    "a hook": """
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
stock = DistributedDataParallel.__init__
def hooked(self, *args, **kwargs):
    stock(self, *args, **kwargs)
    self.register_comm_hook(None, allreduce_hook)
DistributedDataParallel.__init__ = hooked
same_training()
DistributedDataParallel.__init__ = stock
""",
}


def _train(ways: Sequence[str], lazy: str) -> None:
    script = "\n".join([TRAIN, *(WAYS[way] for way in ways), "report(rank, sorted(left_to_cpu.noted()))"])
    for left in run(script, PT_HPU_LAZY_MODE=lazy):
        assert not [op for op in left if "nonzero" not in op and "index" not in op], left  # of SyncBatchNorm's masks


def test_two_processes_train_as_one() -> None:
    _train(["unused parameters"], lazy="1")


@pytest.mark.rest
@pytest.mark.parametrize("lazy", ["1", "0"])
def test_two_processes_train_as_one_in_every_way(lazy: str) -> None:
    _train([*WAYS], lazy)


@pytest.mark.rest
def test_two_processes_train_as_one_compiled() -> None:
    assert run(f"{TRAIN}\nsame_training(compiled=True)\nreport(rank, True)", PT_HPU_LAZY_MODE="0") == [True, True]
