"""The primitives every TensorFlow op is lowered to: meaning, shapes, element types, and an interpreter of them."""
