"""Habana's `habana_frameworks.torch.hpex.experimental`, whose `transformer_engine` computes in fp8, is not here: see
`habana_tf.refused_names`."""

from habana_tf.refused_names import attributes, submodules

INSTEAD = "train in bfloat16 (torch.autocast); torch.ops.hpu casts and multiplies 8-bit floats"
submodules(__name__, INSTEAD)
__getattr__ = attributes(__name__, INSTEAD)
