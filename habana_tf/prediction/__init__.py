"""What a real card would do with a function or a model, before anything runs; see `predict`."""
