"""What programs ask of the device by name: `torch.hpu`, streams, graphs, random numbers, autocast, profiler."""
