"""Habana's `habana_frameworks.torch.core.weight_sharing`."""

from habana_tf.torch.core import HabanaParameterWrapper

__all__ = ["HabanaParameterWrapper"]
