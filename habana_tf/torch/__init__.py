"""PyTorch's front end: the device `hpu` on the simulated card, its op table, lazy mode, torch.compile's backend.

Imported by `habana_frameworks.torch` only. It stands on the rooms that know no framework, and imports no TensorFlow.
"""
