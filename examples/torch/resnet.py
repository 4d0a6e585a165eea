"""A residual network is trained as programs for ImageNet are: on one card or several, in fp32 or in bf16.

    python examples/torch/resnet.py --autocast
    habana-tf run -n 2 --strategy torch examples/torch/resnet.py
    torchrun --nproc_per_node 2 examples/torch/resnet.py --hmp --lazy

The images are scikit-learn's handwritten digits, enlarged, or with `--made_up` noise of any size, which only the speed
is of interest of. `--hmp` is mixed precision as scripts had it before `torch.autocast`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from typing import Any

import torch
from digits import datasets
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WIDTHS, BLOCKS = (16, 32, 64), 2


class Block(nn.Module):
    """Two convolutions of 3x3 beside what they are added to."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.beside = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.beside = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.convolutions(x) + self.beside(x))


def network(classes: int) -> nn.Module:
    """Images [batch, 3, size, size] to logits [batch, classes]."""
    layers: list[nn.Module] = [nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU()]
    inputs = WIDTHS[0]
    for stage, width in enumerate(WIDTHS):
        for k in range(BLOCKS):
            layers.append(Block(inputs, width, 2 if stage and not k else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--batch_size", type=int, default=50, help="of each card")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument(
        "--lr", type=float, default=0.05, help="of one card; the mean gradient of n cards is n times less noise"
    )
    parser.add_argument("--lazy", action="store_true", help="record ops until mark_step, as PT_HPU_LAZY_MODE=1 does")
    parser.add_argument("--autocast", action="store_true", help="bf16 by torch.autocast")
    parser.add_argument("--hmp", action="store_true", help="bf16 by hmp.convert")
    parser.add_argument("--hmp_bf16", default="", help="a file of the ops that run in bf16")
    parser.add_argument("--hmp_fp32", default="", help="a file of the ops that run in fp32")
    parser.add_argument("--hmp_verbose", action="store_true")
    parser.add_argument("--made_up", type=int, metavar="SIZE", help="noise of so many pixels a side")
    return parser.parse_args()


def data(options: argparse.Namespace) -> tuple[Any, Any]:
    """The dataset to train on and the one for the test."""
    if options.made_up:
        size = options.made_up
        noise = TensorDataset(torch.randn(400, 3, size, size), torch.randint(10, (400,)))
        return noise, noise
    return datasets(16, channels=3)


class Program:
    """One process: its card, the model on it, and how it is trained."""

    def __init__(self, options: argparse.Namespace) -> None:
        import habana_frameworks.torch.core as htcore
        from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu

        self.options, self.mark_step = options, htcore.mark_step
        self.size, rank, _ = initialize_distributed_hpu()
        self.rank = max(rank, 0)
        if options.hmp:
            from habana_frameworks.torch.hpex import hmp

            hmp.convert("O1", options.hmp_bf16, options.hmp_fp32, options.hmp_verbose)
        torch.manual_seed(1)  # the same weights everywhere
        self.model: Any = network(10).to("hpu")
        if self.size > 1:
            torch.distributed.init_process_group("hccl")
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), options.lr, momentum=0.9, weight_decay=1e-4)

    def casts(self) -> Any:
        """Where the forward pass runs in bf16."""
        return torch.autocast("hpu", torch.bfloat16) if self.options.autocast else contextlib.nullcontext()

    def train(self, batches: DataLoader[Any]) -> None:
        """One epoch; says its loss and speed."""
        self.model.train()
        start, total = time.perf_counter(), torch.zeros((), device="hpu")
        for images, labels in batches:
            images, labels = images.to("hpu", non_blocking=True), labels.to("hpu", non_blocking=True)
            self.optimizer.zero_grad(set_to_none=True)
            with self.casts():
                loss = F.cross_entropy(self.model(images), labels)
            loss.backward()
            self.mark_step()
            self.optimizer.step()
            total += loss.detach()
            self.mark_step()
        mean = total.item() / len(batches)
        speed = len(batches) * self.options.batch_size * self.size / (time.perf_counter() - start)
        self.say(f"loss {mean:.4f}, {speed:.0f} images/s on {self.size} card(s)")

    def test(self, batches: DataLoader[Any]) -> tuple[float, float]:
        """The shares of images whose label is the first of the model's guesses, and one of the first five."""
        self.model.eval()
        first = fifth = 0
        with torch.no_grad(), self.casts():
            for images, labels in batches:
                guesses = self.model(images.to("hpu")).float().topk(5)[1].cpu() == labels[:, None]
                first, fifth = first + int(guesses[:, 0].sum()), fifth + int(guesses.sum())
        count = len(batches.dataset)  # type: ignore[arg-type]
        return first / count, fifth / count

    def say(self, line: str) -> None:
        """Prints a line, once for all cards."""
        if self.rank == 0:
            print(line, flush=True)


def main() -> None:
    options = arguments()
    os.environ["PT_HPU_LAZY_MODE"] = "1" if options.lazy else "0"  # is read when the device is loaded
    program = Program(options)
    training, test = data(options)
    sampler = DistributedSampler(training, program.size, program.rank, drop_last=True)
    batches = DataLoader(training, options.batch_size, sampler=sampler, drop_last=True, pin_memory=True)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        program.train(batches)
    top1, top5 = program.test(DataLoader(test, 99))
    program.say(f"top-1 {top1:.1%}, top-5 {top5:.1%}")
    if program.size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
