"""How the HBM of a launch grows with the batch, computed from one batch: for the largest batch that fits.

A tensor either grows with the batch or does not. These do not grow: what is computed from variables alone (weights
cast to bf16), and what has the shape of a variable (a weight's gradient, what an optimizer computes of it). Both kinds
are summed for every moment, because the peak moves: with few examples it is at the update of the weights, with many at
the end of the forward pass. In a batch of one, the batch axis has size one like any other: then axes of one count as
sizes too, and a gradient whose shape differs from its weight's in them counts as growing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.card.model.cluster_time import ClusterTime
from habana_tf.card.model.kernels import nbytes
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.memory import lifetimes
from habana_tf.hardware.chips import Chip
from habana_tf.ir import extent as ext
from habana_tf.ir.lifetimes import in_use
from habana_tf.ir.primitives import Node, Op


@dataclass(frozen=True)
class Growth:
    """Bytes of HBM. always: (those that stay as they are, those that grow) of variables and inputs; moments: the same
    of all other tensors, when each unit works."""

    always: tuple[int, int]
    moments: tuple[tuple[int, int], ...]

    def nbytes(self, times: float) -> float:
        """Bytes at the peak, with `times` as large a batch."""
        fixed, growing = self.always
        return fixed + growing * times + max((f + g * times for f, g in self.moments), default=0.0)


def growth(chip: Chip, lowered: Lowered, time: ClusterTime) -> Growth:
    always = [0, 0]
    for k, arg in enumerate(lowered.cluster.inputs):
        always[not arg.variable] += 0 if arg.host else nbytes(lowered.made[-1, k])
    growing = _growing(lowered)
    order, alive = lifetimes(chip, lowered, time)
    spans = [(tensor in growing, (*span, nbytes(tensor))) for tensor, span in alive.items()]
    fixed, more = (in_use(len(order), (span for grows, span in spans if grows is kind)) for kind in (False, True))
    return Growth((always[0], always[1]), tuple(zip(fixed, more, strict=True)))


def largest(growths: Sequence[Growth], batch: int, room: int) -> int:
    """The largest batch with which all launches of a step fit into `room` bytes; 0 if none does, and `batch` itself,
    for which the growths are known, if nothing grows."""

    def fits(examples: int) -> bool:
        return sum(g.nbytes(examples / batch) for g in growths) <= room

    if not any(g.always[1] or any(more for _, more in g.moments) for g in growths):
        return batch if fits(batch) else 0
    least, most = 0, 1
    while fits(most):
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return least


def _growing(lowered: Lowered) -> set[Node]:
    """The tensors that grow with the batch: computed from data, or random, and not of a variable's shape."""
    of_data: set[Node] = {n for n in lowered.program.inputs if n not in lowered.variables}
    least = 0 if any(n.shape and n.shape[0] == 1 for n in of_data) else 1
    sizes = {_sizes(n, least) for n in lowered.variables}
    for n in lowered.program.nodes():
        if n.op is Op.RANDOM or any(source in of_data for source in n.src):
            of_data.add(n)
    return {n for n in of_data if _sizes(n, least) not in sizes}


def _sizes(n: Node, least: int) -> tuple[int, ...]:
    """The sizes of a shape in sorted order, without axes of at most `least` entries."""
    return tuple(sorted(size for size in map(ext.nominal, n.shape) if size > least))
