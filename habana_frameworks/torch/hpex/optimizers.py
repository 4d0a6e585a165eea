"""Habana's fused optimizers."""

from habana_tf.torch.hpex.lars import FusedLars, FusedResourceApplyMomentum
from habana_tf.torch.hpex.optimizers import Adam, AdamW, FusedAdagrad, FusedAdamW, FusedLamb, FusedSGD

__all__ = [
    "Adam", "AdamW", "FusedAdagrad", "FusedAdamW", "FusedLamb", "FusedLars", "FusedResourceApplyMomentum", "FusedSGD",
]  # fmt: skip
