"""Layers and activations of Habana's: `layer_norm.HabanaLayerNormalization`,
`instance_norm.HabanaInstanceNormalization`, `gelu.habana_gelu`.
"""

__all__ = ["gelu", "instance_norm", "layer_norm"]
