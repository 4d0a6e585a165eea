"""What TensorFlow computes and HPU does not: the list from which to choose the next op, and where each belongs."""
