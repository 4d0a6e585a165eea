"""Keras layers of Habana's: `layer_norm.HabanaLayerNormalization`, `instance_norm.HabanaInstanceNormalization`."""
