"""The op table: one module per family; per TensorFlow op its lowering, types, and the inputs that fix a shape."""
