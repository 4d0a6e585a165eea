"""Habana's extensions of PyTorch, made of PyTorch's own ops: mixed precision, optimizers, norms, kernels."""
