"""Habana's `habana_frameworks.torch`: to import it makes `torch.device("hpu")` work, on a simulated Gaudi."""

from habana_frameworks.torch import core, hpu

__all__ = ["core", "hpu"]
