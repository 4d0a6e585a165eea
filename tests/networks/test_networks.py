"""Every network of the zoo trains on HPU as on stock TensorFlow, in one launch a step; some in bf16 too.

Slow: `make test-networks` runs them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.networks import zoo
from tests.networks.comparison import Comparison, compare, row

pytestmark = pytest.mark.timeout(1800)  # the largest take minutes in float64

STEPS = 3
CLOSE = 1e-5
"""Allowed distance from the truth, as a part of a gradient's norm or of the loss, where stock TensorFlow is closer."""
SPREAD = 3
"""How many times as far as stock TensorFlow HPU may be."""

DRAWS = 4
"""More runs of stock TensorFlow, each with weights moved by a rounding, where the first two are nearer than HPU."""

LAUNCHES = {"lstm": 200, "gru": 200}
"""Most launches a step where the host runs a loop; others have one."""
WORK = 0.99
"""Least part of the multiply-adds of a step that HPU does."""

BF16_CLOSE = 2**-8
"""Allowed distance of losses from the truth where stock TensorFlow is closer: the rounding of one bf16 number."""
FARTHER = 1.25
"""How many times as far as stock TensorFlow's bf16 HPU's may be. It is mostly nearer, because it sums in fp32 and keeps
what it fuses in fp32; but where a step amplifies rounding both distances are one draw of chance."""


def whole_on_hpu(result: Comparison) -> None:
    """Asserts that the step is one launch and nothing of it is the CPU's, but for loops that the host runs."""
    network, coverage = result.network, result.coverage
    assert coverage["launches"] <= LAUNCHES.get(network, 1), coverage
    assert coverage["interpreted"] == 0
    assert result.work >= WORK, coverage
    assert not [op for op in coverage["outside"] if " CPU:" in op] or network in LAUNCHES


@pytest.mark.parametrize("network", zoo.NETWORKS)
def test_trains_as_on_stock_tensorflow(network: str, record_property: Callable[[str, str], None]) -> None:
    result = compare(network, steps=STEPS)
    whole_on_hpu(result)
    if not all(map(near, (result.worst(), result.losses))):  # one rounding may flip a ReLU: ask stock more often
        result = compare(network, steps=STEPS, draws=DRAWS)
    record_property("fp32", row(result))
    assert near(result.worst())
    assert near(result.losses)


def near(distances: tuple[float, float]) -> bool:
    """Whether HPU's distance from the truth is like stock's."""
    ours, stock = distances
    return ours <= max(CLOSE, SPREAD * stock)


@pytest.mark.parametrize("network", zoo.BF16)
def test_bf16_is_as_near_the_truth_as_on_stock_tensorflow(
    network: str, record_property: Callable[[str, str], None]
) -> None:
    result = compare(network, "bf16", STEPS)
    record_property("bf16", row(result))
    whole_on_hpu(result)
    ours, stock = result.together
    assert ours <= FARTHER * stock
    ours, stock = result.losses
    assert ours <= max(BF16_CLOSE, FARTHER * stock)
