"""What TensorFlow says of its ops and kernels, and the kernels that HPU registers beside them."""
