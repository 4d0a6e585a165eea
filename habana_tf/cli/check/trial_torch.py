"""What `trial` runs of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MORE: dict[str, Callable[[], dict[str, Any]]] = {}


def load() -> str:
    import torch

    return str(torch.__version__)


def device() -> str:
    import torch

    from habana_tf.torch import loader

    loader.load()
    return str((torch.zeros(2, device="hpu") + 1).device)


def step(device: str, inputs: list[Any]) -> list[Any]:
    import torch

    x, weights = (torch.from_numpy(each).to(device) for each in inputs)
    weights.requires_grad_()
    loss = torch.logsumexp(torch.tanh(x @ weights), 1).mean()
    loss.backward()
    return [each.detach().cpu().numpy() for each in (loss, weights.grad)]
