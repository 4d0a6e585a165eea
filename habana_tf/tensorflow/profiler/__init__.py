"""TensorFlow's profiler: sessions that record launches, and its record of the ops on the CPU."""
