"""Habana's `habana_frameworks.torch.hpex.experimental`, whose `transformer_engine` computes in fp8, is not here: see
`habana_tf.refused_names`."""

from habana_tf.refused_names import attributes, submodules

INSTEAD = "there is no fp8; train and infer in bfloat16 (torch.autocast)"
submodules(__name__, INSTEAD)
__getattr__ = attributes(__name__, INSTEAD)
