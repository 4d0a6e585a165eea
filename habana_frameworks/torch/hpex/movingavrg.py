"""Habana's fused moving average of a model."""

from habana_tf.torch.hpex.kernels import FusedEMA

__all__ = ["FusedEMA"]
