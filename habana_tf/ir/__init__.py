"""The primitives every op is lowered to: meaning, shapes, element types, and an interpreter of them."""
