"""Habana's `habana_frameworks.mediapipe`, whose pipes decode pictures on the card, is not here: see
`habana_tf.refused_names`."""

from habana_tf.refused_names import attributes, submodules

INSTEAD = "decode and resize pictures with torchvision or tf.data on the host, in a DataLoader of several workers"
submodules(__name__, INSTEAD)
__getattr__ = attributes(__name__, INSTEAD)
