"""Every network of the zoo trains on HPU as on stock TensorFlow, in one launch a step.

Slow: `make test-networks` runs them. NETWORKS_PART=1/4 takes every fourth, from the second on.
"""

from __future__ import annotations

import os

import pytest

from tests.networks import zoo
from tests.networks.comparison import compare

STEPS = 3
CLOSE = 1e-5
"""Allowed distance from the truth, as a part of a gradient's norm or of the loss, where stock TensorFlow is closer."""
SPREAD = 3
"""How many times as far as stock TensorFlow HPU may be."""

LAUNCHES = {"lstm": 200, "gru": 200}
"""Most launches a step where the host runs a loop; others have one."""
WORK = 0.99
"""Least part of the multiply-adds of a step that HPU does."""


def chosen() -> list[str]:
    part, _, parts = os.environ.get("NETWORKS_PART", "0/1").partition("/")
    return list(zoo.NETWORKS)[int(part) % int(parts) :: int(parts)]


@pytest.mark.parametrize("network", chosen())
def test_trains_as_on_stock_tensorflow(network: str) -> None:
    result = compare(network, steps=STEPS)
    assert result.coverage["launches"] <= LAUNCHES.get(network, 1), result.coverage
    assert result.coverage["interpreted"] == 0
    assert result.work >= WORK, result.coverage
    assert not [op for op in result.coverage["outside"] if " CPU:" in op] or network in LAUNCHES
    ours, stock = result.worst()
    assert ours <= max(CLOSE, SPREAD * stock)
    ours, stock = result.losses
    assert ours <= max(CLOSE, SPREAD * stock)
