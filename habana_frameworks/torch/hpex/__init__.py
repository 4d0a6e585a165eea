"""Habana's extensions of PyTorch."""

from habana_frameworks.torch.hpex import hmp

__all__ = ["hmp"]
