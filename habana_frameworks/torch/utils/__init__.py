"""Habana's helpers for programs."""

from habana_frameworks.torch.utils import debug, experimental, internal

__all__ = ["debug", "experimental", "internal"]
