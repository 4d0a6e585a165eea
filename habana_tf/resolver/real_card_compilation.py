"""How long a real card's software takes to compile recipes: a band, from what is published of first steps.

Published is how much longer the first steps of some TensorFlow programs took on Gaudi than later ones. That is 3 to 50
ms for each op that was compiled, for recipes of 100 ops as for one of 900; docs/recompilations.md has the programs. The
figures have tracing and the first use of the device in them, so that the least is nearer to the truth than the most.
"""

from __future__ import annotations

Band = tuple[float, float]
"""The least and the most."""

SECONDS_PER_OP: Band = (0.003, 0.050)
"""The least: a network for CIFAR-10, 1 s for 293 ops. The most: ResNet-50, 43.6 s for 880 ops."""


def seconds(ops: int, recipes: int = 1) -> Band:
    """What compiling so many recipes of so many ops each, one after the other, may take a real card's software."""
    least, most = SECONDS_PER_OP
    return ops * recipes * least, ops * recipes * most
