"""Callbacks for Keras' `fit` that log what this package counts."""
