"""Habana's extensions of PyTorch."""

from habana_frameworks.torch.hpex import hmp, kernels, movingavrg, normalization, optimizers

__all__ = ["hmp", "kernels", "movingavrg", "normalization", "optimizers"]
