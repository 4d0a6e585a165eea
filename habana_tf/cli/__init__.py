"""The command line: `habana-tf`. Nothing here imports TensorFlow."""
