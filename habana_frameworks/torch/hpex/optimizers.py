"""Habana's fused optimizers. FusedLars and FusedResourceApplyMomentum are not here."""

from habana_tf.torch.hpex.optimizers import Adam, AdamW, FusedAdagrad, FusedAdamW, FusedLamb, FusedSGD

__all__ = ["Adam", "AdamW", "FusedAdagrad", "FusedAdamW", "FusedLamb", "FusedSGD"]
