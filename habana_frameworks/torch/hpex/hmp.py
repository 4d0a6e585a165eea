"""Habana's mixed precision for scripts of before `torch.autocast`."""

from habana_tf.torch.hpex.hmp import convert, disable_casts

__all__ = ["convert", "disable_casts"]
