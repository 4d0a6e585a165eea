"""The time of a training step on one card or several: launches, feeding by the host, the sum of gradients, waiting.

seconds   launches, one after the other
        + the network, for as long as it works after the last gradient
        + a share of the launches that grows with the cards, which wait for the slowest
or the time to feed the card over PCIe, if that is longer

A step of several micro-batches launches all of it but the update of the variables for each, and adds the gradients to
their sums after each: it reads both and writes one. The sums cross the network when the last is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.card.model.cluster_time import ClusterTime, UnitTime, cluster_time, together
from habana_tf.card.model.growth import Growth, growth
from habana_tf.card.model.kernels import behind_views, nbytes
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.memory import CATEGORIES, Peak, hbm_by_category, peak
from habana_tf.card.model.network import exposed_seconds, slowest
from habana_tf.card.model.parameters import LATEST_FITTED, Parameters
from habana_tf.card.model.roles import Roles, roles
from habana_tf.hardware.boxes import Box
from habana_tf.hardware.boxes import box as usual_box
from habana_tf.hardware.chips import Chip
from habana_tf.ir.primitives import Node


@dataclass(frozen=True)
class StepTime:
    """A step. Seconds: of all launches together, of the network at work and of it alone, of waiting for other cards, of
    copies between host and card; update_seconds: of the launches, what computes new weights from gradients. memory:
    bytes of HBM by category. gradient_bytes: that are summed over cards. growth: of each launch, with the batch; peaks:
    what holds most of each launch's HBM."""

    chip: Chip
    cards: int
    box: Box
    clusters: list[ClusterTime]
    launches: float
    network: float
    network_alone: float
    waiting: float
    copies: float
    memory: dict[str, int]
    gradient_bytes: int = 0
    update_seconds: float = 0.0
    growth: tuple[Growth, ...] = ()
    peaks: tuple[Peak, ...] = ()

    @property
    def working(self) -> float:
        """Seconds of the cards by themselves, however they are fed."""
        return self.launches + self.network_alone + self.waiting

    @property
    def seconds(self) -> float:
        return max(self.working, self.copies)

    @property
    def units(self) -> list[UnitTime]:
        return [u for cluster in self.clusters for u in cluster.units]

    @property
    def hbm_bytes(self) -> int:
        return sum(self.memory.values())


def step_time(
    chip: Chip, launches: Sequence[Lowered], cards: int = 1, copied: int = 0, box: Box | None = None,
    parameters: Parameters = LATEST_FITTED, accumulate: int = 1,
) -> StepTime:  # fmt: skip
    """The step that launches these clusters in order, on so many cards each.

    copied: bytes that cross PCIe in a step. box: by default the chip's usual one. accumulate: micro-batches of a step.
    """
    box = box or usual_box(chip)
    clusters, ready, grown, peaks = [], [], [], []
    memory = dict.fromkeys(CATEGORIES, 0)
    start, gradient_bytes, update_seconds = 0.0, 0, 0.0
    for lowered in launches:
        time = cluster_time(chip, lowered.program, frozenset(lowered.made.values()), parameters)
        found = roles(lowered, [u.unit for u in time.units])
        gradients = gradient_times(time, found, start)
        summed = sum(bytes_ for _, bytes_ in gradients)
        once = together(updates(lowered, time, found), parameters)
        gradient_bytes += summed
        update_seconds += once
        for category, bytes_ in hbm_by_category(chip, lowered, time, found).items():
            kept = category in ("weights", "optimizer", "inputs", "activations")
            memory[category] = memory[category] + bytes_ if kept else max(memory[category], bytes_)
        clusters.append(time)
        grown.append(growth(chip, lowered, time))
        peaks.append(peak(chip, lowered, time))
        start += time.seconds
        if accumulate > 1:
            start += (accumulate - 1) * (time.seconds - once) + accumulate * 3 * summed / chip.hbm_bandwidth
            gradients = [(start - once, bytes_) for _, bytes_ in gradients]
        ready += gradients
    if accumulate > 1:
        memory["gradients"] += gradient_bytes
    busy, alone = exposed_seconds(chip, box, ready, cards, parameters.launch)
    waiting = start * parameters.skew * slowest(cards)
    return StepTime(
        chip, cards, box, clusters, start, busy, alone, waiting, accumulate * copied / chip.pcie_bandwidth, memory,
        gradient_bytes, update_seconds, tuple(grown), tuple(peaks),
    )  # fmt: skip


def updates(lowered: Lowered, time: ClusterTime, found: Roles) -> list[UnitTime]:
    """The units that compute new weights from gradients: they write one, or read state of the optimizer, or only what
    such units make, and variables."""
    results = zip(lowered.cluster.outputs, lowered.cluster.results, strict=True)
    new = [(ref, arg.assigns) for ref, arg in results if arg.variable]
    written = behind_views(lowered.made[ref] for ref, k in new if lowered.made.get((-1, k)) in found.weights)
    inside: set[Node] = set()
    out = []
    for u in time.units:
        loads = set(u.unit.loads)
        of_others = loads & inside and loads <= inside | lowered.variables
        if not u.unit.product and (written & u.unit.stores.keys() or loads & found.state or of_others):
            out.append(u)
            inside.update(u.unit.results)
    return out


def gradient_times(time: ClusterTime, found: Roles, start: float) -> list[tuple[float, int]]:
    """When each gradient is ready, and its bytes. Where no update op names them: one per weight, of its size, spread
    over the products of the last two thirds of the launch."""
    maker = {n: u.unit for u in time.units for n in (*u.unit.inside, *u.unit.results)}
    at = time.finished
    if found.gradients:
        return [(start + at[maker[n].index], nbytes(n)) for n in found.gradients if n in maker]
    if not found.state:
        return []
    products = sorted(at[u.unit.index] for u in time.units if u.unit.product)
    later = [t for t in products if t > time.seconds / 3] or [time.seconds]
    weights = sorted(found.weights, key=lambda n: int(n.arg))
    return [(start + later[k * len(later) // len(weights)], nbytes(n)) for k, n in enumerate(weights)]
