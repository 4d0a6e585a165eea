"""Habana's `habana_frameworks.torch`: to import it makes `torch.device("hpu")` work, on a simulated Gaudi."""

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError(
        "habana_frameworks.torch needs PyTorch, which is not installed: pip install 'habana_tf[torch]'", name="torch"
    )

import torch  # scripts say habana_frameworks.torch.torch

from habana_frameworks.torch import core, distributed, hpu, internal, utils

__all__ = ["core", "distributed", "hpu", "internal", "torch", "utils"]
