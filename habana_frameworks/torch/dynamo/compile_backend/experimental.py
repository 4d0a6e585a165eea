"""Habana's switches of `torch.compile`."""

from habana_tf.torch.compile import enable_compiled_autograd

__all__ = ["enable_compiled_autograd"]
