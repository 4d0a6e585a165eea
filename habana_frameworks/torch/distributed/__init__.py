"""Habana's `habana_frameworks.torch.distributed`."""
