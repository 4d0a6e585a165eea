"""What forward passes of a language model take, from recordings of it with few of its layers.

A decoder repeats its layers, so that it is recorded with two, three and four of them (of each kind, where kinds take
turns). What engines do, and bytes, grow by the same amount from each to the next, and are taken on to all layers. Where
the steps differ, all layers are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from habana_tf.card.model.cluster_time import cluster_time, side_by_side
from habana_tf.card.model.collective_time import collective_seconds
from habana_tf.card.model.memory import peak
from habana_tf.card.model.parameters import Parameters
from habana_tf.card.prediction.ranks import Collective, Event, Launch, simulated
from habana_tf.hardware.boxes import Box
from habana_tf.hardware.chips import Chip
from habana_tf.ir.dtypes import from_label
from habana_tf.torch.dry_run.generation import Forward, Setting, kinds_of_layers, record
from habana_tf.torch.dry_run.rank import Board, UnrunLaunch
from habana_tf.torch.dry_run.recorder import Unrun
from habana_tf.torch.dry_run.world import pretended

RECORDED = (2, 3, 4)
"""Layers of each kind."""
_ITS_OWN = {"attention": 1.0, "streamed": 1.0, "gaudi3": 1.0}
"""Parameters of training, of which a pass has rules of its own: attention in slices, `Chip.mme_sustained`."""
_SAME = 1e-3
"""Share of a number by which its steps from layer to layer may differ."""


@dataclass(frozen=True)
class Measured:
    """A forward pass on one card. seconds: with its collectives. Bytes: of what is alive at most besides weights and
    cache, of the cache's keys and values after it, of weights."""

    seconds: float
    activations: float
    cached: float
    weights: float


@dataclass(frozen=True)
class _Launched:
    """A program's launch. work: seconds of products and of kernels, each with its traffic, and how many both are;
    workspace: bytes."""

    name: str
    work: tuple[float, float, float]
    workspace: int


@dataclass(frozen=True)
class _Pass:
    """A forward pass with some layers. work: of its launch, see `_Launched`, zeros where it has several. numbers: as in
    Measured, with the seconds of several launches and their collectives, 0 where there is one. programs: what launches
    compute."""

    work: tuple[float, float, float]
    numbers: tuple[float, float, float, float]
    programs: frozenset[bytes]


class Meter:
    """Measures forward passes of a model. layers: of its decoder."""

    def __init__(self, setting: Setting, chip: Chip, box: Box, parameters: Parameters) -> None:
        self._setting, self._chip, self._box, self._parameters = setting, chip, box, parameters
        kinds = kinds_of_layers(setting.config)
        self.layers = len(kinds)
        self._period = next(n for n in range(1, len(kinds) + 1) if kinds == (kinds[:n] * len(kinds))[: len(kinds)])
        self._passes: dict[tuple[int, Forward], _Pass] = {}
        self._launched: dict[bytes, _Launched] = {}

    def __call__(self, passes: Iterable[Forward]) -> dict[Forward, Measured]:
        """What each takes."""
        wanted = list(dict.fromkeys(passes))
        counts = [n * self._period for n in RECORDED]
        if self.layers > counts[-1]:
            parts = [self._with(n, wanted) for n in counts]
            steps = (self.layers - counts[-1]) / self._period
            taken = {each: _taken_on([part[each] for part in parts], steps) for each in wanted}
            if all(taken.values()):
                return {each: self._measured(*numbers) for each, numbers in taken.items() if numbers}
        whole = self._with(self.layers, wanted)
        return {each: self._measured(*whole[each].work, *whole[each].numbers) for each in wanted}

    def programs(self, passes: Iterable[Forward]) -> int:
        """How many different programs they launch: as many with all layers as with two of each kind."""
        found = self._with(min(self.layers, RECORDED[0] * self._period), list(dict.fromkeys(passes)))
        return len(frozenset().union(*(each.programs for each in found.values())))

    def _measured(self, *numbers: float) -> Measured:
        """A pass of its launch's work, and of what else there is: see `_Pass`."""
        return Measured(self._seconds(*numbers[:3]) + numbers[3], *numbers[4:])

    def _seconds(self, products: float, kernels: float, pieces: float) -> float:
        """Of a launch in an HPU graph: products and kernels go on side by side, and the card's own preparation of the
        next piece of work beside both."""
        pauses = pieces * self._parameters.graph
        return side_by_side(products / self._chip.mme_sustained, kernels, pauses, self._parameters)

    def _with(self, layers: int, wanted: Sequence[Forward]) -> dict[Forward, _Pass]:
        """The passes of the model with so many layers."""
        missing = [each for each in wanted if (layers, each) not in self._passes]
        if missing:
            with pretended(0, self._setting.tp, self._box.cards, Board()) as rank:
                found = record(rank, self._setting, layers, missing)
            for each in missing:
                copied = 0 if each.room else 2 * found.cached[each]
                self._passes[layers, each] = self._pass(found.events[each], found.cached[each], found.weights, copied)
        return {each: self._passes[layers, each] for each in wanted}

    def _pass(
        self, events: Sequence[UnrunLaunch | Collective], cached: int, weights: int, copied: int
    ) -> _Pass:  # fmt: skip
        """copied: bytes that a growing cache is read and written for."""
        copy = copied / self._chip.hbm_bandwidth
        launches = [event for event in events if isinstance(event, UnrunLaunch)]
        made = [self._launch(event.program) for event in launches]
        alive = max(each.workspace + _others(event.program) for each, event in zip(made, launches, strict=True))
        programs = frozenset(event.program.recording.computed() for event in launches)
        if len(events) == 1:
            products, kernels, pieces = made[0].work
            return _Pass((products, kernels + copy, pieces), (0.0, alive, cached, weights), programs)
        left = iter(made)
        order: list[Event] = [
            event if isinstance(event, Collective) else self._event(next(left), event) for event in events
        ]
        spans = simulated({0: order}, self._collective)
        return _Pass((0.0, 0.0, 0.0), (copy + max(span.end for span in spans), alive, cached, weights), programs)

    def _event(self, launched: _Launched, event: UnrunLaunch) -> Launch:
        return Launch(launched.name, self._seconds(*launched.work), event.reads, event.writes)

    def _collective(self, event: Collective) -> float:
        hop = self._parameters.launch
        return collective_seconds(self._chip, self._box, event.kind, event.nbytes, event.ranks, hop)

    def _launch(self, program: Unrun) -> _Launched:
        key = program.recording.computed()
        if key not in self._launched:
            made = program.lowered()
            time = cluster_time(
                self._chip,
                made.program,
                frozenset(made.made.values()),
                replace(self._parameters, launch=0.0, **_ITS_OWN),
            )
            work = (time.matrix, time.vector, float(len(time.units)))
            self._launched[key] = _Launched(made.cluster.name, work, peak(self._chip, made, time).nbytes)
        return self._launched[key]


def _taken_on(parts: Sequence[_Pass], steps: float) -> tuple[float, ...] | None:
    """The numbers of a pass that many steps after the last part; None where steps differ."""
    found = []
    for first, second, third in zip(*((*part.work, *part.numbers) for part in parts), strict=True):
        if abs(third - 2 * second + first) > _SAME * abs(third - first + (third == first)):
            return None
        found.append(third + steps * (third - second))
    return tuple(found)


def _others(program: Unrun) -> int:
    """Bytes of a program's inputs that are no weights and no cache."""
    given = zip(program.roles, program.recording.inputs, strict=False)
    return sum(math.prod(shape) * from_label(label).bytes for role, (shape, label) in given if not role)
