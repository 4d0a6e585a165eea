"""A vision transformer learns handwritten digits, a batch in parts, and says how many images it trains on in a second.

    python examples/torch/vit.py
    python examples/torch/vit.py --gradient_accumulation_steps 4 --autocast

After "An Image is Worth 16x16 Words" (arXiv 2010.11929), small. Lazy mode: the parts of a batch are one program each,
which the first of them compiles.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import time
from typing import Any

os.environ.setdefault("PT_HPU_LAZY_MODE", "1")  # is read when the device is loaded

import torch
from digits import datasets
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import habana_frameworks.torch.core as htcore


class ViT(nn.Module):
    """Images [batch, 1, size, size] to logits [batch, 10]."""

    def __init__(self, size: int, patch: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


def accuracy(model: nn.Module, test: DataLoader[Any]) -> float:
    """The share of the test's images that the model names right."""
    model.eval()
    with torch.no_grad():
        right = sum((model(x.to("hpu")).argmax(1).cpu() == y).sum().item() for x, y in test)
    return right / len(test.dataset)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_batch_size", type=int, default=100)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=2, help="parts a batch is computed in")
    parser.add_argument("--num_steps", type=int, default=300)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--log_every", type=int, default=50)
    parser.add_argument("--autocast", action="store_true", help="bf16 by torch.autocast")
    options = parser.parse_args()
    parts = options.gradient_accumulation_steps
    if options.train_batch_size % parts:
        parser.error(f"a batch of {options.train_batch_size} has no {parts} equal parts")

    torch.manual_seed(1)
    training, test = datasets(8)
    model = ViT(size=8, patch=2, width=64, depth=4, heads=4).to("hpu")
    optimizer = torch.optim.AdamW(model.parameters(), options.learning_rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.learning_rate, options.num_steps)
    part = DataLoader(training, options.train_batch_size // parts, shuffle=True, drop_last=True)
    batches = itertools.chain.from_iterable(itertools.repeat(part))
    start, total = time.perf_counter(), torch.zeros((), device="hpu")
    for step in range(1, options.num_steps + 1):
        for images, labels in itertools.islice(batches, parts):
            with torch.autocast("hpu", torch.bfloat16) if options.autocast else contextlib.nullcontext():
                loss = F.cross_entropy(model(images.to("hpu")), labels.to("hpu")) / parts
            loss.backward()
            total += loss.detach()
            htcore.mark_step()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=False)  # the gradients stay where they are, to be added to
        htcore.mark_step()
        if step % options.log_every == 0:
            mean = total.item() / options.log_every  # waits for the steps
            seconds, start = time.perf_counter() - start, time.perf_counter()
            print(
                f"step {step}: loss {mean:.4f}, {options.log_every * options.train_batch_size / seconds:.0f} images/s"
            )
            total.zero_()
    print(f"test accuracy: {accuracy(model, DataLoader(test, 99)):.1%}")


if __name__ == "__main__":
    main()
