"""As `worker.py`, in PyTorch: trains one model of `torch_models.py` in this process and prints one JSON line.

    python torch_worker.py --model lenet --device compile --precision bf16 --threads 2 --steps 200

A step is what `model.fit` does: a batch from memory, forward and backward pass, Adam, and the accuracy of the batch.
bf16 is autocast, PyTorch's counterpart of Keras' mixed policy.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise

import torch
import torch_models
from torch.nn import functional

WARM_UP = 0.2
"""Part of the steps, at the start, that is not counted."""
BATCHES = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, choices=torch_models.MODELS)
    parser.add_argument("--device", choices=["eager", "compile"], required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    benchmark = torch_models.MODELS[arguments.model]
    model = benchmark.build().train()
    images = len(benchmark.shape) == 3
    if images:
        model = model.to(memory_format=torch.channels_last)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-3, eps=1e-7)
    batches = [_batch(benchmark, images) for _ in range(BATCHES)]

    def forward(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            logits = model(x)
        logits = logits.float().flatten(0, -2)
        loss = functional.cross_entropy(logits, y.flatten())
        return loss, (logits.detach().argmax(-1) == y.flatten()).float().mean()

    run = torch.compile(forward) if arguments.device == "compile" else forward  # the backward pass is compiled with it
    start, ends, loss, right = time.perf_counter(), [], torch.zeros(()), 0.0
    for k in range(arguments.steps):
        loss, accuracy = run(*batches[k % BATCHES])
        loss.backward()
        right += float(accuracy)
        optimizer.step()
        optimizer.zero_grad()
        ends.append(time.perf_counter())
    steps = [after - before for before, after in pairwise(ends)]
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "parameters": sum(weight.numel() for weight in trained),
                "first_step": ends[0] - start,
                "steps": steps[int(len(steps) * WARM_UP) :],
                "loss": loss.item(),
            }
        )
    )


def _batch(benchmark: torch_models.Benchmark, images: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Random inputs and labels."""
    shape = (benchmark.batch, *benchmark.shape)
    x = torch.randint(1, benchmark.words, shape) if benchmark.words else torch.rand(shape)
    if images:
        x = x.contiguous(memory_format=torch.channels_last)
    return x, torch.randint(0, benchmark.classes, shape if benchmark.each else shape[:1])


if __name__ == "__main__":
    main()
