"""Step times on HPU beside stock TensorFlow on the CPU: `make bench`."""
