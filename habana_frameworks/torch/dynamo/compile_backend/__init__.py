"""Habana's backend of `torch.compile`, which `habana_frameworks.torch` registers."""
