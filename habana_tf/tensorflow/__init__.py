"""Everything that imports TensorFlow: graphs and ops in, programs of the middle out."""
