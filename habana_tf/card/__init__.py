"""What a real card would do with a lowered cluster: time per engine, memory, the network of several cards.

Computed from the cluster, never from the CPU's kernels: a card fuses and slices otherwise. `docs/fidelity.md` holds the
model against published figures.
"""
