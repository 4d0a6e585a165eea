"""Many cards: the backend `hccl` of torch.distributed, and what launchers say of a process."""
