"""Habana's fused norms."""

from habana_tf.torch.hpex.kernels import FusedClipNorm, FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedRMSNorm", "RmsNormBwdMode"]
