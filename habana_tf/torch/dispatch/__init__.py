"""The device's kernels at PyTorch's dispatcher: recorded, composed of others, or left to the CPU."""
