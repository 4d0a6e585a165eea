"""A step of TensorFlow that is traced and never run: what it would launch, copy and leave to the host."""
