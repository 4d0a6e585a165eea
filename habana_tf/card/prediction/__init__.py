"""The answers to `predict()` and `plan()`: time, memory, bounds and costliest layers of a step, cards for a target."""
