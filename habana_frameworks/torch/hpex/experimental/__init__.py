"""Habana's experimental modules."""

from habana_frameworks.torch.hpex.experimental import transformer_engine

__all__ = ["transformer_engine"]
