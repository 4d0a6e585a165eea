"""What `trial` runs of PyTorch."""

from __future__ import annotations

from typing import Any

from habana_tf.cli.check.trial_step import Stage, compared, compiled, inputs


def _torch(kept: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {"version": torch.__version__}


def _hpu(kept: dict[str, Any]) -> dict[str, Any]:
    import torch

    from habana_tf.torch import loader

    loader.load()
    where = str((torch.zeros(2, device="hpu") + 1).device)
    return {"device": where}


def _compiled(kept: dict[str, Any]) -> dict[str, Any]:
    return compiled(kept, lambda: _step("hpu"), "PyTorch")


def _numbers(kept: dict[str, Any]) -> dict[str, Any]:
    """The same step by PyTorch on the CPU."""
    return compared(kept, _step("cpu"))


def _step(device: str) -> list[Any]:
    import torch

    x, weights = (torch.from_numpy(each).to(device) for each in inputs())
    weights.requires_grad_()
    loss = torch.logsumexp(torch.tanh(x @ weights), 1).mean()
    loss.backward()
    return [each.detach().cpu().numpy() for each in (loss, weights.grad)]


STAGES: dict[str, Stage] = {"PyTorch": _torch, "HPU": _hpu, "compiler": _compiled, "numbers": _numbers}
