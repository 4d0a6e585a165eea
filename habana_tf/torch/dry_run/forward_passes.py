"""What forward passes of a language model take, from recordings of it with few of its layers.

A decoder repeats its layers, so that it is recorded with one, two and three of them (of each kind, where kinds take
turns). What engines do, and bytes, grow by the same amount from each to the next, and are taken on to all layers; what
a program is bound by is asked then. Where the steps differ, all layers are recorded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from habana_tf.card.model.cluster_time import cluster_time, side_by_side
from habana_tf.card.model.collective_time import collective_seconds
from habana_tf.card.model.memory import peak
from habana_tf.card.model.network import slowest
from habana_tf.card.model.parameters import Parameters
from habana_tf.hardware.boxes import Box
from habana_tf.hardware.chips import Chip
from habana_tf.ir.dtypes import from_label
from habana_tf.torch.dry_run.generation import TYPES, Forward, Recorded, Setting, kinds_of_layers, record
from habana_tf.torch.dry_run.recorder import Unrun

RECORDED = (1, 2, 3)
"""Layers of each kind."""
_SAME = 1e-3
"""Share of a number by which its steps from layer to layer may differ."""


@dataclass(frozen=True)
class Measured:
    """A forward pass on one card. working: seconds of its programs; summing: of its collectives. Bytes: of what is
    alive at most besides weights and cache, of the cache's keys and values after it, of weights."""

    working: float
    summing: float
    activations: float
    cached: float
    weights: float

    def seconds(self, parts: int = 1) -> float:
        """Sums over cards wait for products, and products for sums. parts: as many passes that take turns before and
        after each sum, which goes on beside the next part's work; beside that of the last part there is none."""
        return parts * (self.working + self.summing) - (parts - 1) * min(self.working, self.summing)


@dataclass(frozen=True)
class _Pass:
    """What a recorded forward pass launches. programs: seconds of each and how many pieces of work it is; summing,
    activations, cached, weights: as in Measured; computed: the programs that differ."""

    programs: Sequence[tuple[float, float]]
    summing: float
    activations: float
    cached: float
    weights: float
    computed: frozenset[bytes]

    def measured(self, parameters: Parameters, cards: int) -> Measured:
        """Programs are those of an HPU graph, in which a card prepares the next piece of work beside the one before.
        The next program waits for a sum, and that for the slowest card."""
        seconds = (side_by_side(took, 0.0, pieces * parameters.graph, parameters) for took, pieces in self.programs)
        working = sum(seconds) * (1 + parameters.skew * slowest(cards))
        return Measured(working, self.summing, self.activations, self.cached, self.weights)


class Meter:
    """Measures forward passes of a model. layers: of its decoder; row_bytes: of a token between two of them;
    parameters: of which `graph` and `skew` may change afterwards."""

    def __init__(self, setting: Setting, chip: Chip, box: Box, parameters: Parameters) -> None:
        self.setting, self.chip, self.box, self.parameters = setting, chip, box, parameters
        self._inside = replace(parameters, launch=0.0)
        self.row_bytes = setting.config.get_text_config().hidden_size * TYPES[setting.precision].itemsize
        kinds = kinds_of_layers(setting.config)
        self.layers = len(kinds)
        self._period = next(n for n in range(1, len(kinds) + 1) if kinds == (kinds[:n] * len(kinds))[: len(kinds)])
        self._passes: dict[tuple[int, Forward], _Pass] = {}
        self._launched: dict[bytes, tuple[float, int, int]] = {}

    def __call__(self, passes: Iterable[Forward]) -> dict[Forward, Measured]:
        """What each takes."""
        wanted = list(dict.fromkeys(passes))
        counts = [n * self._period for n in RECORDED]
        if self.layers > counts[-1]:
            parts = [self._with(n, wanted) for n in counts]
            steps = (self.layers - counts[-1]) / self._period
            taken = {each: self._taken_on([part[each] for part in parts], steps) for each in wanted}
            if all(taken.values()):
                return {each: found for each, found in taken.items() if found}
        return {each: self._measured(made) for each, made in self._with(self.layers, wanted).items()}

    def programs(self, passes: Iterable[Forward]) -> int:
        """How many passes differ in what they launch: as many with all layers as with two of each kind."""
        found = self._with(min(self.layers, 2 * self._period), list(dict.fromkeys(passes)))
        return len({each.computed for each in found.values()})

    def _measured(self, made: _Pass) -> Measured:
        return made.measured(self.parameters, self.setting.tp)

    def _taken_on(self, parts: Sequence[_Pass], steps: float) -> Measured | None:
        """A pass that many steps after the last part; None where steps differ. Where all have as many programs, each
        program has so many more layers, and may be bound by another thing with them; where layers have programs of
        their own, there are more of them."""
        apart = len({len(part.programs) for part in parts}) > 1
        numbers = _on_lines(
            [
                (*((self._measured(p).working,) if apart else chain.from_iterable(p.programs)), p.summing, p.cached,
                 p.weights, p.activations)
                for p in parts
            ],
            steps,
        )  # fmt: skip
        if numbers is None:
            return None
        if apart:
            working, summing, cached, weights, activations = numbers
            return Measured(working, summing, activations, cached, weights)
        *programs, summing, cached, weights, activations = numbers
        made = list(zip(programs[::2], programs[1::2], strict=True))
        return self._measured(_Pass(made, summing, activations, cached, weights, frozenset()))

    def _with(self, layers: int, wanted: Sequence[Forward]) -> dict[Forward, _Pass]:
        """The passes of the model with so many layers."""
        missing = [each for each in wanted if (layers, each) not in self._passes]
        if missing:
            found, weights = record(self.setting, layers, missing)
            for each, made in found.items():
                copied = 0 if each.room else 2 * made.cached  # what grows is read and written
                self._passes[layers, each] = self._pass(made, weights, copied)
        return {each: self._passes[layers, each] for each in wanted}

    def _pass(self, recorded: Recorded, weights: int, copied: int) -> _Pass:
        made = [self._launch(program) for program in recorded.programs]
        alive = max(nbytes + _others(program) for (_, _, nbytes), program in zip(made, recorded.programs, strict=True))
        copying = copied / self.chip.hbm_bandwidth / len(made)
        programs = [(seconds + copying, pieces) for seconds, pieces, _ in made]
        summing = sum(self._exchange(*each) for each in recorded.asked)
        computed = frozenset(program.recording.computed() for program in recorded.programs)
        return _Pass(programs, summing, alive, recorded.cached, weights, computed)

    def _exchange(self, kind: str, nbytes: int) -> float:
        """Seconds of a collective."""
        ranks, hop = range(self.setting.tp), self.parameters.launch
        return collective_seconds(self.chip, self.box, kind, nbytes, ranks, hop)

    def _launch(self, program: Unrun) -> tuple[float, int, int]:
        """Seconds of a program, how many pieces of work it is, and bytes of its workspace."""
        key = program.recording.computed()
        if key not in self._launched:
            made = program.lowered()
            results = frozenset(made.made.values())
            time = cluster_time(self.chip, made.program, results, self._inside, chain=True)
            self._launched[key] = time.seconds, len(time.units), peak(self.chip, made, time).nbytes
        return self._launched[key]


def _on_lines(parts: Sequence[Sequence[float]], steps: float) -> list[float] | None:
    """Numbers that many steps after the last part; None where steps differ. The last of them is a maximum, which need
    not be in the first layer."""
    for x, y, z in zip(*(part[:-1] for part in parts), strict=True):
        if abs(z - 2 * y + x) > _SAME * abs(z - x + (z == x)):
            return None
    return [z + steps * (z - y) for y, z in zip(parts[1], parts[2], strict=True)]


def _others(program: Unrun) -> int:
    """Bytes of a program's inputs that are no weights and no cache, but for those whose memory a result of their size
    takes: scripts add to hidden values in place, and nobody reads them once the next are there."""
    given = zip(program.roles, program.recording.inputs, strict=False)
    inputs = Counter(_bytes(*each) for role, each in given if not role)
    results = (program.recording.ops[op][3][k] for op, k in program.recording.outputs if op >= 0)
    made = Counter(_bytes(shape, label) for shape, label, *_ in results)
    return sum(nbytes * count for nbytes, count in (inputs - made).items())


def _bytes(shape: Sequence[int], label: str) -> int:
    return math.prod(shape) * from_label(label).bytes
