"""As `worker.py`, in PyTorch: trains one model of `torch_models.py` in this process and prints one JSON line.

    python torch_worker.py --model lenet --device compile --precision bf16 --threads 2 --steps 200

A step is what `model.fit` does: a batch from memory, forward and backward pass, Adam, and the accuracy of the batch.
bf16 is autocast, PyTorch's counterpart of Keras' mixed policy. On HPU in lazy mode the backward pass and the update end
with a `mark_step` each, as Habana's examples do, and some steps more measure what it costs to record an op.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import pairwise

import torch
import torch_models
from torch.nn import functional

WARM_UP = 0.2
"""Part of the steps, at the start, that is not counted."""
BATCHES = 16
MEASURED = 4
"""Steps of which recording is measured."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, choices=torch_models.MODELS)
    parser.add_argument("--device", choices=["eager", "compile", "hpu-lazy", "hpu-compile"], required=True)
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
    device, mark_step = _device(arguments.device)
    model = model.to(device)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-3, eps=1e-7)
    batches = [_batch(benchmark, images) for _ in range(BATCHES)]

    def forward(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(device, torch.bfloat16, enabled=arguments.precision == "bf16"):
            logits = model(x)
        logits = logits.float().flatten(0, -2)
        loss = functional.cross_entropy(logits, y.flatten())
        return loss, (logits.detach().argmax(-1) == y.flatten()).float().mean()

    run = forward  # where it is compiled, the backward pass is with it
    if arguments.device.endswith("compile"):
        run = torch.compile(forward, backend="inductor" if device == "cpu" else "hpu_backend")

    def step(k: int) -> torch.Tensor:
        loss, accuracy = run(*(part.to(device) for part in batches[k % BATCHES]))
        loss.backward()
        mark_step()
        optimizer.step()
        mark_step()
        optimizer.zero_grad()
        float(accuracy)
        return loss

    start, ends, loss = time.perf_counter(), [], torch.zeros(())
    for k in range(arguments.steps):
        loss = step(k)
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
                **({"recorded": _recorded(step)} if arguments.device == "hpu-lazy" else {}),
            }
        )
    )


def _device(name: str) -> tuple[str, Callable[[], None]]:
    """PyTorch's name of a device, and what ends a program there."""
    if not name.startswith("hpu"):
        return "cpu", lambda: None
    import habana_frameworks.torch.core as htcore

    return "hpu", htcore.mark_step if name == "hpu-lazy" else lambda: None


def _recorded(step: Callable[[int], torch.Tensor]) -> dict[str, float]:
    """How many ops a step records, and the least time that it took an op in one of some steps."""
    from habana_tf.torch import loader

    recorder = loader.load()
    record, spent, ops = recorder.record, 0.0, 0

    def timed(*arguments: object) -> object:
        nonlocal spent, ops
        start = time.perf_counter()
        made = record(*arguments)
        spent, ops = spent + time.perf_counter() - start, ops + 1
        return made

    recorder.record = timed
    costs = []
    for k in range(MEASURED):
        spent, ops = 0.0, 0
        step(k)
        costs.append(spent / ops)
    return {"ops": ops, "us_per_op": 1e6 * min(costs)}


def _batch(benchmark: torch_models.Benchmark, images: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Random inputs and labels."""
    shape = (benchmark.batch, *benchmark.shape)
    x = torch.randint(1, benchmark.words, shape) if benchmark.words else torch.rand(shape)
    if images:
        x = x.contiguous(memory_format=torch.channels_last)
    return x, torch.randint(0, benchmark.classes, shape if benchmark.each else shape[:1])


if __name__ == "__main__":
    main()
