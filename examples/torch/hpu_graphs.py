"""A trained network answers one image at a time: recorded anew at each call, and as an HPU graph that is replayed.

    python examples/torch/hpu_graphs.py

A call of a few microseconds of work is mostly PyTorch handing out its ops. A graph keeps what they became: to replay it
is to write the image where the first one was, and to run.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable

os.environ["PT_HPU_LAZY_MODE"] = "1"  # graphs are of lazy mode

import torch
from digits import datasets
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import habana_frameworks.torch as ht

CALLS = 300


def network() -> nn.Module:
    """Images [batch, 1, 8, 8] to logits [batch, 10]."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 64), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def train(model: nn.Module, batches: DataLoader[tuple[Tensor, ...]], epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(images.to("hpu")), labels.to("hpu")).backward()
            optimizer.step()
            ht.core.mark_step()


def answers(model: Callable[[Tensor], Tensor], images: Tensor) -> tuple[Tensor, float]:
    """The digit that the model sees on each image, asked for one by one, and milliseconds a call."""
    found, start = [], time.perf_counter()
    for image in images.split(1):
        found.append(model(image.to("hpu")).argmax(1).cpu())
    return torch.cat(found), (time.perf_counter() - start) * 1e3 / len(images)


def main() -> None:
    torch.manual_seed(1)
    training, test = datasets()
    model = network().to("hpu")
    train(model, DataLoader(training, 50, shuffle=True, drop_last=True), epochs=6)
    model.eval()
    images, labels = (t[:CALLS] for t in test.tensors)
    with torch.no_grad():
        graphed = ht.hpu.wrap_in_hpu_graph(copy.deepcopy(model))
        for call in (model, graphed):
            call(images[:1].to("hpu")).argmax(1).cpu()  # compiles, and captures
        recorded, slow = answers(model, images)
        replayed, fast = answers(graphed, images)
    assert torch.equal(recorded, replayed)
    print(f"test accuracy: {(replayed == labels).float().mean():.1%}")
    print(f"a call: {slow:.2f} ms recorded, {fast:.2f} ms replayed")


if __name__ == "__main__":
    main()
