"""Habana's questions about its own mode, which some libraries ask."""

from habana_tf.torch.loader import load

__all__ = ["is_lazy"]


def is_lazy() -> bool:
    """Whether ops wait for mark_step()."""
    return load().lazy
