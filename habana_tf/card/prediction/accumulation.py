"""A step that sums the gradients of several batches before it updates the weights once (gradient accumulation).

    launches   times x a step without its update + (times - 1) x adding its gradients + the update
    network    one sum over the cards, after the last batch: nothing of it is done behind a backward pass
    memory     the sums of the gradients besides

Adding reads the sum and writes it; the gradient comes out of SRAM where that holds it. Clipping, which stands before
the update, is done for every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from habana_tf.card.model.kernels import behind_views
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.roles import roles
from habana_tf.card.model.step_time import StepTime, gradient_times


@dataclass(frozen=True)
class Update:
    """Of the weights in one step. seconds: of the units that write them. pause: what these stand still between two
    pieces of work, which adding as many gradients would too. gradient_bytes: of all gradients; added_bytes: HBM traffic
    of adding them once."""

    seconds: float
    pause: float
    gradient_bytes: int
    added_bytes: int


def update(step: StepTime, launches: Sequence[Lowered]) -> Update:
    """The update in a step of one batch. The overlap of both engines is taken off all units in proportion."""
    seconds, pause = 0.0, 0.0
    sizes: list[int] = []
    for lowered, time in zip(launches, step.clusters, strict=True):
        found = roles(lowered, [u.unit for u in time.units])
        results = zip(lowered.cluster.outputs, lowered.cluster.results, strict=True)
        written = behind_views(
            lowered.made[ref]
            for ref, arg in results
            if arg.variable and lowered.made.get((-1, arg.assigns)) in found.weights
        )
        units = [u for u in time.units if not u.unit.product and written & u.unit.stores.keys()]
        whole = sum(u.seconds for u in time.units) or 1.0
        seconds += sum(u.seconds for u in units) * time.seconds / whole
        pause += sum(u.seconds - max(u.busy, u.memory) for u in units)
        sizes += [nbytes for _, nbytes in gradient_times(time, found, 0.0)]
    return Update(seconds, pause, sum(sizes), sum(n * (2 if n <= step.chip.sram_bytes else 3) for n in sizes))


def accumulated(step: StepTime, found: Update, times: int) -> StepTime:
    """The step with the gradients of so many batches; as it is for one."""
    if times == 1:
        return step
    adding = found.added_bytes / step.chip.hbm_bandwidth + found.pause
    launches = times * (step.launches - found.seconds) + (times - 1) * adding + found.seconds
    waiting = step.waiting * launches / step.launches if step.launches else 0.0
    memory = {**step.memory, "gradients": step.memory.get("gradients", 0) + found.gradient_bytes}
    return replace(
        step, launches=launches, network_alone=step.network, waiting=waiting, copies=times * step.copies, memory=memory
    )
