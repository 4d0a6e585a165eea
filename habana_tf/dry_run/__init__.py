"""`predict()`, `compare()` and `plan()`: what a step would launch, found out without running it.

A function or a Keras training step is traced, put through the graph pass and lowered. How long its launches would take
says the model of a card (`card.model`); the answer is a `card.prediction.prediction.Prediction`.
"""
