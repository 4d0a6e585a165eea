"""Habana's part of `torch.compile`."""
