"""Compares the training of a network on HPU with PyTorch's on the CPU: in fp32, in bf16, and of several cards."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from habana_tf.resolver import placements
from habana_tf.torch import loader
from tests.torch.networks import training
from tests.torch.networks.training import Spread, Trained

WAYS = "lazy", "eager", "compiled"
FACTOR = 4
"""By how much the distance may be above PyTorch's from itself, which is the largest of a few draws."""
FACTOR_BF16 = 2
"""The same of bf16, whose distances from fp32 are large: two draws of it differ by no more than that."""
LEAST = 1e-6
"""A distance that says nothing: eight roundings of a number near 1."""
TOTALS = ("vit", "gpt2", "lstm")
"""Networks whose batch may be cut in halves and change nothing: without statistics over a batch, and with as many
numbers in the loss of each half."""


@dataclass(frozen=True)
class Compared:
    """One training beside PyTorch's. beside: what it is compared with; losses, weights: largest differences, and how
    large they may be; left: ops that ran on the CPU; learned: the last losses are below the first."""

    network: str
    way: str
    cards: int
    precision: str
    steps: int
    beside: str
    losses: float
    most_losses: float
    weights: float
    most_weights: float
    left: list[str] = field(default_factory=list)
    learned: bool = True

    @property
    def near(self) -> bool:
        """Whether it is within what is allowed."""
        return self.losses <= self.most_losses and self.weights <= self.most_weights

    def as_json(self) -> dict[str, Any]:
        """What `Compared(**...)` takes."""
        return asdict(self)


@functools.cache
def _wanted(name: str, steps: int, group: Any) -> tuple[Trained, Spread]:
    train = functools.partial(training.trained, name, "cpu", steps, group=group)
    want, spread = training.spread(train, 2 if steps < 10 else 4)
    return want, _largest(spread, group)


@functools.cache
def _wanted_in_bf16(name: str, steps: int, group: Any) -> tuple[Trained, Spread]:
    """In fp32, and how far PyTorch's CPU gets from that under autocast: with oneDNN, where it computes in bf16 on this
    CPU (its LSTM raises elsewhere), and without, and from weights that begin one rounding off."""
    want = _wanted(name, steps, group)[0]
    train = functools.partial(training.trained, name, "cpu", steps, autocast=torch.bfloat16, group=group)
    with training.threads(1):
        with torch.backends.mkldnn.flags(enabled=torch.ops.mkldnn._is_mkldnn_bf16_supported()):
            others = [train(), *(train(disturb=seed) for seed in range(2))]
        with torch.backends.mkldnn.flags(enabled=False):
            others.append(train())
    return want, _largest(training.largest(want, others), group)


def _largest(spread: Spread, group: Any) -> Spread:
    """Of all processes: each has the loss of a few samples of the same batch."""
    found = torch.tensor(spread, dtype=torch.float64)
    if group is not None:
        dist.all_reduce(found, dist.ReduceOp.MAX, group=group)
    return found[0].item(), found[1].item()


def compare(
    name: str, way: str, steps: int, autocast: torch.dtype | None = None, mine: Any = None, theirs: Any = None
) -> list[Compared]:
    """Trains a network on HPU in one of `WAYS`, beside the CPU in fp32. mine, theirs: groups of several processes that
    train it on their cards, and on their CPUs."""
    recorder = loader.load()
    recorder.flush()
    recorder.lazy = way == "lazy"
    placements.reset()
    got = training.trained(name, "hpu", steps, compiled=way == "compiled", autocast=autocast, group=mine)
    left = sorted({each.op for each in placements.placements().cpu})
    learned = bool(torch.isfinite(got.losses).all()) and bool(got.losses[-4:].mean() < got.losses[:4].mean())
    cards = 1 if mine is None else dist.get_world_size(mine)
    precision, factor = ("bf16", FACTOR_BF16) if autocast else ("fp32", FACTOR)

    def compared(beside: str, got: Trained, want: Trained, spread: Spread) -> Compared:
        losses, weights = want.distance(got)
        most = [max(factor * each, LEAST) for each in spread]
        return Compared(name, way, cards, precision, steps, beside, losses, most[0], weights, most[1], left, learned)

    known = (_wanted_in_bf16 if autocast else _wanted)(name, steps, theirs)
    found = [compared("CPU" if cards == 1 else f"{cards} CPUs", got, *known)]
    if cards > 1 and name in TOTALS and not autocast:
        total = Trained(_mean(got.losses, theirs), got.weights)
        found.append(compared("CPU, whole batch", total, *_wanted(name, steps, None)))
    return found


def _mean(losses: torch.Tensor, group: Any) -> torch.Tensor:
    """Of the processes' losses."""
    total = losses.clone()
    dist.all_reduce(total, group=group)
    return total / dist.get_world_size(group)
