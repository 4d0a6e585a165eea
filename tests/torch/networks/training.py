"""Trains a network of `models`: the same weights and batches for every device, and how far PyTorch is from itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from tests.torch.networks.models import NETWORKS

SEED = 5


@dataclass
class Trained:
    """losses [steps]; the model's weights and buffers by name, on the CPU."""

    losses: torch.Tensor
    weights: dict[str, torch.Tensor]

    def distance(self, other: Trained) -> tuple[float, float]:
        """Largest difference of a loss, and of a weight. Integers must be the same."""
        losses = (self.losses - other.losses).abs().max().item()
        weights = 0.0
        for name, value in self.weights.items():
            if not value.is_floating_point():
                assert torch.equal(value, other.weights[name]), name
                continue
            difference = (value.double() - other.weights[name].double()).abs().max().item()
            assert difference == difference, f"{name} is not a number"
            weights = max(weights, difference)
        return losses, weights


def optimizer_of(name: str, model: torch.nn.Module) -> torch.optim.Optimizer:
    """What the network is usually trained with, at a rate at which rounding does not grow without bounds."""
    if name in ("resnet18", "unet"):
        return torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=1e-4)
    # An epsilon above the noise of gradients: Adam divides by their size, however small they are.
    return torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-5, weight_decay=0.01)


def trained(
    name: str, device: str, steps: int, dtype: torch.dtype = torch.float32, compiled: bool = False,
    autocast: torch.dtype | None = None, disturb: int | None = None, group: Any = None,
) -> Trained:  # fmt: skip
    """Trains with gradients clipped to a norm of 1. A batch is one of four, again and again, so that it learns.

    disturb: a seed by which each weight is moved to the next number, up or down. group: processes that train it under
    DistributedDataParallel, each with its part of a batch.
    """
    network = NETWORKS[name]
    torch.manual_seed(SEED)
    model = network.model().to(dtype)
    if disturb is not None:
        directions = torch.Generator().manual_seed(disturb)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p.nextafter(p + torch.randn(p.shape, generator=directions)))
    model = model.to(device)
    numbers = torch.Generator().manual_seed(SEED)
    part = slice(None) if group is None else slice(dist.get_rank(group), None, dist.get_world_size(group))
    batches = [
        tuple(_of_type(t[part].contiguous(), dtype).to(device) for t in network.batch(numbers)) for _ in range(4)
    ]
    optimizer = optimizer_of(name, model)
    call: Any = model if group is None else torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    call = torch.compile(call, backend="hpu_backend") if compiled else call
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, autocast) if autocast else contextlib.nullcontext():
            loss = network.loss(call, batches[step % len(batches)])
        loss.backward()
        if device == "hpu":
            torch.hpu.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if device == "hpu":
            torch.hpu.synchronize()
        losses.append(loss.detach())
    state = {k: v.cpu().clone() for k, v in model.state_dict().items()}
    return Trained(torch.stack([n.float().cpu() for n in losses]), state)


def _of_type(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t.to(dtype) if t.is_floating_point() else t


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """PyTorch's CPU kernels on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Spread = tuple[float, float]
"""Largest difference of a loss, and of a weight, between several runs that ought to be the same."""


def largest(want: Trained, others: list[Trained]) -> Spread:
    """How far any of several runs is from the first."""
    distances = [want.distance(other) for other in others]
    return max(d[0] for d in distances), max(d[1] for d in distances)


def spread(train: Callable[..., Trained], draws: int) -> tuple[Trained, Spread]:
    """PyTorch on the CPU in fp32, and how far it gets from itself: with and without oneDNN, on one thread and two, from
    fp64, and where weights begin one rounding off, up or down. A ReLU or a maximum that changes sides by that moves
    weights by much more than rounding does: none of the others alone would show it.

    train: `trained` of a network on the CPU; draws: how often weights begin one rounding off.
    """
    with threads(1):
        want = train()
        others = [train(disturb=seed) for seed in range(draws)]
        others.append(train(dtype=torch.float64))
        with torch.backends.mkldnn.flags(enabled=False):
            others.append(train())
    with threads(2):
        others.append(train())
    return want, largest(want, others)
