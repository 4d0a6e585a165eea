"""Habana's fused norms."""

from habana_tf.torch.hpex.kernels import FusedClipNorm, FusedRMSNorm

__all__ = ["FusedClipNorm", "FusedRMSNorm"]
