"""Trains networks on two cards, in two processes under DistributedDataParallel, beside two processes of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.torch.ranks import run

if TYPE_CHECKING:
    from tests.torch.networks.comparing import Compared

_SCRIPT = """
from tests.torch.networks.comparing import compare

start(240)
mine, theirs = dist.group.WORLD, dist.new_group(backend="gloo")
found = []
for name in {networks}:
    for steps in {steps}:
        for way in {ways}:
            found += compare(name, way, steps, {autocast}, mine, theirs)
report(rank, [each.as_json() for each in found])
"""


def compared(
    networks: Sequence[str], ways: Sequence[str], steps: Sequence[int], autocast: str = "None"
) -> list[Compared]:
    """What each of the two processes found, one after the other."""
    from tests.torch.networks.comparing import Compared

    script = _SCRIPT.format(networks=[*networks], ways=[*ways], steps=[*steps], autocast=autocast)
    return [Compared(**each) for found in run(script) for each in found]
