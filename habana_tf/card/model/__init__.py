"""The model of a card: time per engine, memory, and the network of several cards, for a lowered cluster.

Computed from the cluster and not from the kernels that this CPU runs, because a card fuses and slices otherwise.
docs/fidelity.md compares the model with published figures.
"""
