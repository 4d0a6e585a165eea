"""PyTorch's front end: the device `hpu` on the simulated card, its op table, lazy mode and the backend of torch.compile.

Imported by `habana_frameworks.torch` only. It stands on the rooms that know no framework, and imports no TensorFlow.
"""
