"""`predict()` and `compare()`: a function or a Keras training step is traced, put through the graph pass and lowered,
and nothing runs; the model of a card (`card.model`) says how long its launches would take."""
