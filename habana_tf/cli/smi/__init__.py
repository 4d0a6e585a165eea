"""`hl-smi`: the cards of the simulated machine, as Habana's tool of that name shows them. It imports no TensorFlow."""
