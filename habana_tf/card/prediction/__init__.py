"""The answer to `predict()`: time, memory and costliest layers of one step, as data and as tables."""
