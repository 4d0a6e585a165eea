"""A small convolutional network learns handwritten digits on the simulated Gaudi.

    python examples/torch/mnist.py
    python examples/torch/mnist.py --lazy

Without `--lazy` the ops of a step run one by one, or, with `--compile`, as the graphs of torch.compile. With it they
are recorded, and each `mark_step` makes one program of them.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
from digits import datasets
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


def network() -> nn.Module:
    """Images [batch, 1, 8, 8] to logits [batch, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def accuracy(model: Any, test: DataLoader[Any]) -> float:
    """The share of the test's images that the model names right."""
    model.eval()
    with torch.no_grad():
        right = sum((model(x.to("hpu")).argmax(1).cpu() == y).sum().item() for x, y in test)
    return right / len(test.dataset)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lazy", action="store_true", help="record ops until mark_step, as PT_HPU_LAZY_MODE=1 does")
    parser.add_argument("--compile", action="store_true", help='torch.compile(backend="hpu_backend")')
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=64)
    options = parser.parse_args()
    os.environ["PT_HPU_LAZY_MODE"] = "1" if options.lazy else "0"  # is read when the device is loaded
    import habana_frameworks.torch.core as htcore

    torch.manual_seed(1)
    training, test = datasets()
    # All batches have one size: another one would be another program.
    batches = DataLoader(training, options.batch_size, shuffle=True, drop_last=True)
    model = network().to("hpu")
    call: Any = torch.compile(model, backend="hpu_backend") if options.compile else model
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(options.epochs):
        start, total = time.perf_counter(), torch.zeros((), device="hpu")
        model.train()
        for images, labels in batches:
            images, labels = images.to("hpu"), labels.to("hpu")
            optimizer.zero_grad()
            loss = F.cross_entropy(call(images), labels)
            loss.backward()
            htcore.mark_step()
            optimizer.step()
            total += loss.detach()  # not .item(), which would wait for every step
            htcore.mark_step()
        mean = total.item() / len(batches)
        print(f"epoch {epoch + 1}: loss {mean:.4f}, {time.perf_counter() - start:.1f} s", flush=True)
    print(f"test accuracy: {accuracy(model, DataLoader(test, 99)):.1%}")


if __name__ == "__main__":
    main()
