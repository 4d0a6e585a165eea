"""The time of a training step on one card or several: launches, feeding by the host, the sum of gradients, waiting.

seconds   launches, one after the other
        + the network, for as long as it works after the last gradient
        + a share of the launches for each doubling of the cards, which wait for the slowest
or the time to feed the card over PCIe, if that is longer
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.card.model.cluster_time import ClusterTime, UnitTime, cluster_time
from habana_tf.card.model.growth import Growth, growth
from habana_tf.card.model.kernels import nbytes
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.memory import CATEGORIES, Peak, hbm_by_category, peak
from habana_tf.card.model.network import exposed_seconds
from habana_tf.card.model.parameters import FITTED
from habana_tf.card.model.roles import Roles, roles
from habana_tf.hardware.chips import Chip


@dataclass(frozen=True)
class StepTime:
    """A step. Seconds: of all launches together, of the network at work and of it alone, of waiting for other cards, of
    copies between host and card. memory: bytes of HBM by category. growth: of each launch, with the batch; peaks: what
    holds most of each launch's HBM."""

    chip: Chip
    cards: int
    clusters: list[ClusterTime]
    launches: float
    network: float
    network_alone: float
    waiting: float
    copies: float
    memory: dict[str, int]
    growth: tuple[Growth, ...] = ()
    peaks: tuple[Peak, ...] = ()

    @property
    def seconds(self) -> float:
        return max(self.launches + self.network_alone + self.waiting, self.copies)

    @property
    def units(self) -> list[UnitTime]:
        return [u for cluster in self.clusters for u in cluster.units]

    @property
    def hbm_bytes(self) -> int:
        return sum(self.memory.values())


def step_time(
    chip: Chip, launches: Sequence[Lowered], cards: int = 1, copied: int = 0, by_host: bool = False
) -> StepTime:
    """The step that launches these clusters in order, on so many cards each.

    copied: bytes that cross PCIe in a step. by_host: see `network.sum_seconds`.
    """
    clusters, ready, grown, peaks = [], [], [], []
    memory = dict.fromkeys(CATEGORIES, 0)
    start = 0.0
    for lowered in launches:
        time = cluster_time(chip, lowered.program, frozenset(lowered.made.values()), FITTED)
        found = roles(lowered, [u.unit for u in time.units])
        ready += gradient_times(time, found, start)
        for category, bytes_ in hbm_by_category(chip, lowered, time, found).items():
            kept = category in ("weights", "optimizer", "inputs", "activations")
            memory[category] = memory[category] + bytes_ if kept else max(memory[category], bytes_)
        clusters.append(time)
        grown.append(growth(chip, lowered, time))
        peaks.append(peak(chip, lowered, time))
        start += time.seconds
    busy, alone = exposed_seconds(chip, ready, cards, FITTED.launch, by_host)
    waiting = start * FITTED.skew * math.log2(cards)
    return StepTime(
        chip,
        cards,
        clusters,
        start,
        busy,
        alone,
        waiting,
        copied / chip.pcie_bandwidth,
        memory,
        tuple(grown),
        tuple(peaks),
    )


def gradient_times(time: ClusterTime, found: Roles, start: float) -> list[tuple[float, int]]:
    """When each gradient is ready, and its bytes. Where no update op names them: one per weight, of its size, spread
    over the products of the last two thirds of the launch."""
    maker = {n: u.unit for u in time.units for n in u.unit.results}
    at = time.finished
    if found.gradients:
        return [(start + at[maker[n].index], nbytes(n)) for n in found.gradients if n in maker]
    if not found.state:
        return []
    products = sorted(at[u.unit.index] for u in time.units if u.unit.product)
    later = [t for t in products if t > time.seconds / 3] or [time.seconds]
    weights = sorted(found.weights, key=lambda n: int(n.arg))
    return [(start + later[k * len(later) // len(weights)], nbytes(n)) for k, n in enumerate(weights)]
