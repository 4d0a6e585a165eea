"""Changes of torch.nn, of autocast and of how a tensor is shown."""

from __future__ import annotations

import functools
from typing import Any

import torch

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.device import autocast


def _shown_from_cpu(original: Any) -> Any:
    @functools.wraps(original)
    def _tensor_str(self: torch.Tensor, indent: int) -> Any:
        return original(self.detach().cpu() if self.device.type == "hpu" else self, indent)

    return _tensor_str


def _forgetting(original: Any) -> Any:
    @functools.wraps(original)
    def clear_autocast_cache() -> None:
        autocast.default.forget()
        original()

    return clear_autocast_cache


AUTOCAST = Group(
    "autocast_weights", "cast weights outlive the autocast that cast them",
    (Change("torch", "clear_autocast_cache", _forgetting),), numbers=True, framework=PYTORCH,
)  # fmt: skip
TRANSFORMERS = Group(
    "transformer_parts", "nn.TransformerEncoder in eval mode fails with a padding mask, or runs on the CPU",
    (), begin=lambda started: torch.backends.mha.set_fastpath_enabled(False),
    end=lambda: torch.backends.mha.set_fastpath_enabled(True), framework=PYTORCH,
)  # fmt: skip
PRINTING = Group(
    "tensor_printing", "to print a tensor runs a dozen ops of the device",
    (Change("torch._tensor_str", "_tensor_str", _shown_from_cpu),), framework=PYTORCH,
)  # fmt: skip
