"""Habana's `habana_frameworks.torch.internal`, of which scripts read and write settings."""

from habana_frameworks.torch.internal import bridge_config

__all__ = ["bridge_config"]
