"""Habana's `habana_frameworks.torch.core.quantizer`, which annotates exported graphs for 8 bits, is not here: see
`habana_tf.refused_names`."""

from habana_tf.refused_names import attributes

__getattr__ = attributes(
    __name__,
    "measure and quantize modules with neural_compressor.torch.quantization.FP8Config, or write torch.ops.hpu's casts "
    "and products of 8-bit floats",
)
