"""What is changed in Keras 2."""
