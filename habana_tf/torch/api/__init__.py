"""The parts of `torch.hpu`, one subject a file."""
