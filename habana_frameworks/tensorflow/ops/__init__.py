"""`ops`: layers and activations.

Habana's: Keras layers and functions over ops of the card.
Here: `layer_norm.HabanaLayerNormalization`, `instance_norm.HabanaInstanceNormalization`, `gelu.habana_gelu`, over
TensorFlow's ops.
"""

__all__ = ["gelu", "instance_norm", "layer_norm"]
