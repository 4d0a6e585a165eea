"""`predict_ranks()`: a step of a job of many cards, from its own program, run as some of its ranks."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.card.model.cluster_time import ClusterTime, UnitWork, side_by_side, work, work_time
from habana_tf.card.model.collective_time import collective_seconds
from habana_tf.card.model.network import slowest
from habana_tf.card.model.parameters import FITTED, LATEST, Parameters, check_release
from habana_tf.card.prediction.ranks import Collective, Disagreement, Event, Launch, Span, check, simulated
from habana_tf.card.prediction.waits import RankTime, rank_time
from habana_tf.hardware.boxes import Box
from habana_tf.hardware.boxes import box as box_named
from habana_tf.hardware.chips import Chip
from habana_tf.hardware.chips import chip as chip_named

if TYPE_CHECKING:
    from habana_tf.torch.dry_run.rank import Rank, UnrunLaunch
    from habana_tf.torch.dry_run.recorder import Unrun

_LINES = 5
STEPS = 3
"""Steps of an optimizer that a program makes: the first has what comes once, the last is predicted."""


class NothingLaunched(ValueError):
    """A program that gives the card nothing to do."""


@dataclass(frozen=True)
class RanksPrediction:
    """A step of a job. world: its cards; ranks: those that were simulated; spans: what each did, from the beginning of
    the step; skew: seconds that cards lose by waiting for the slowest, in the mean."""

    chip: Chip
    box: Box
    world: int
    ranks: tuple[RankTime, ...]
    spans: tuple[Span, ...]
    skew: float

    @property
    def seconds(self) -> float:
        """Of the step, until the last simulated rank ends it."""
        return max(span.end for span in self.spans) + self.skew

    @property
    def memory(self) -> int:
        """Bytes of tensors on the card that has most."""
        return max(rank.memory for rank in self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it, in seconds and bytes."""
        spans = [
            {"rank": s.rank, "what": s.event.name if isinstance(s.event, Launch) else s.event.kind, "begin": s.begin,
             "end": s.end, "waited": s.waited, "for_rank": s.blamed,
             **({} if isinstance(s.event, Launch) else {"nbytes": s.event.nbytes, "ranks": list(s.event.ranks),
                                                         "line": s.event.line})}
            for s in self.spans
        ]  # fmt: skip
        return {
            "chip": self.chip.name, "box": self.box.name, "world": self.world, "seconds": self.seconds,
            "skew": self.skew, "memory": self.memory, "ranks": [asdict(r) for r in self.ranks], "spans": spans,
        }  # fmt: skip

    def html(self) -> str:
        """A page that loads nothing: what each rank does and when, who waits, for whom, how long."""
        from habana_tf.dry_run.ranks_page import page

        title = f"{self.chip.product}, {self.world} cards in boxes of {self.box.cards}"
        return page(title, self.seconds, self.skew, self.ranks, self.spans)

    def __str__(self) -> str:
        lines = [
            f"{self.chip.product}, {self.world} cards in boxes of {self.box.cards}: {self.seconds * 1e3:.2f} ms a step,"
            f" {self.memory / 2**30:.2f} GiB of tensors at most",
            f"{'rank':>5} {'launches':>10} {'network':>10} {'exposed':>10} {'waiting':>10}   ms",
        ]
        for r in self.ranks:
            times = (r.launches, r.network, r.exposed, r.waiting)
            lines.append(f"{r.rank:>5} " + " ".join(f"{t * 1e3:>10.2f}" for t in times))
        reads = Counter[str]()
        for r in self.ranks:
            reads.update(r.reads)
        if reads:
            lines.append("values that the host waits for, in the whole program:")
            lines += [f"{count:>7}  {line or 'a line of no file'}" for line, count in reads.most_common(_LINES)]
        return "\n".join(lines)


def predict_ranks(
    program: Callable[[], Any], world: int, ranks: Sequence[int] = (0,), chip: str | None = None,
    box: str | None = None, release: str = LATEST,
) -> RanksPrediction:  # fmt: skip
    """The last of three steps of an optimizer that `program` makes, as these ranks of a job of `world` cards; all of
    it where it makes none.

    program: takes nothing and does all that a rank does: `init_process_group("hccl")`, a model on "hpu", a loop. It is
    run for each of `ranks`, and for those whose objects they need, with RANK, WORLD_SIZE and LOCAL_RANK set. Nothing is
    computed, no memory is taken for tensors of the card, a value that it reads is 0. Ranks that are not named are taken
    to keep step with those that are.

    Raises card.prediction.ranks.Disagreement where the ranks' collectives do not go together, NothingLaunched,
    ValueError for a world, rank, chip or box that there is none of, and what the program raises.
    """
    jobs = Jobs(chip, box, release)
    return jobs.predicted(jobs.recorded(program, world, ranks, STEPS), -1)


class Jobs:
    """Predicts jobs on cards of a chip. What equal programs of any of them take is computed once."""

    def __init__(self, chip: str | None, box: str | None, release: str) -> None:
        self.chip = chip_named(chip)
        self._box, self._parameters = box_named(self.chip, box), FITTED.at(check_release(release))
        self._work: dict[bytes, tuple[str, Sequence[UnitWork]]] = {}
        self._times: dict[bytes, tuple[str, ClusterTime]] = {}

    def by(self, parameters: Parameters) -> Jobs:
        """These with other parameters: what programs compute stays known."""
        made = copy.copy(self)
        made._parameters, made._times = parameters, {}
        return made

    def recorded(self, program: Callable[[], Any], world: int, ranks: Sequence[int], steps: int) -> list[Rank]:
        """What these ranks do in so many steps of an optimizer, and those whose objects they need. Raises Disagreement
        for any of these steps."""
        from habana_tf.torch.dry_run import rank as job
        from habana_tf.torch.dry_run.world import pretended

        if world < 1 or not ranks or not all(0 <= rank < world for rank in ranks):
            raise ValueError(f"world={world}, ranks={tuple(ranks)}: name ranks from 0 to {world - 1}")
        found: dict[int, Rank] = {}
        board, order = job.Board(), sorted(set(ranks))
        tried: dict[tuple[int, int], int] = {}
        while order:
            number, needed = order[0], None
            with pretended(number, world, self._box.cards, board, steps) as made:
                try:
                    program()
                except job.Ended:
                    pass
                except job.Unsaid as why:
                    needed = why.rank
            if needed is None:
                order.remove(number)
                found[number] = made
                continue
            # That rank first, whose messages are kept even if it does not come to its end.
            if needed in found or tried.get((number, needed)) == board.count:
                raise Disagreement(
                    f"rank {number} waits for a message of rank {needed}, which "
                    + ("ends without it" if needed in found else "waits itself: none of them can go on")
                )
            tried[number, needed] = board.count
            order = [needed, *(each for each in order if each != needed)]
        check({number: [e for e in made.whole() if isinstance(e, Collective)] for number, made in found.items()})
        return [found[number] for number in sorted(found)]

    def predicted(self, found: Sequence[Rank], step: int) -> RanksPrediction:
        """A step of what ranks do, by its number, negative from the last. Raises Disagreement, NothingLaunched."""
        steps = {rank.number: rank.step(step) for rank in found}
        events = {
            number: [*self._events(made.events[: made.update]), *self._events(made.events[made.update :])]
            for number, made in steps.items()
        }
        if not any(events.values()):
            raise NothingLaunched("the program launches nothing on the card: put its model on 'hpu'")
        spans = simulated(events, self._collective)
        busy = max(sum(s.event.seconds for s in spans if s.rank == n and isinstance(s.event, Launch)) for n in events)
        times = tuple(rank_time(rank.number, spans, steps[rank.number].alive, rank.reads) for rank in found)
        world = found[0].size
        skew = busy * self._parameters.skew * slowest(world)
        return RanksPrediction(self.chip, self._box, world, times, tuple(spans), skew)

    def _collective(self, event: Collective) -> float:
        hop = self._parameters.launch
        return collective_seconds(self.chip, self._box, event.kind, event.nbytes, event.ranks, hop)

    def _events(self, found: Sequence[UnrunLaunch | Collective]) -> list[Event]:
        """Launches and collectives of a step's gradients, or of its update, which scripts end by `mark_step`. MME, TPC
        and HBM work side by side in them as they do in a program: collectives end programs, and the model of a card is
        fitted to steps (an assumption: docs/fidelity.md)."""
        of = {k: self._time(each.program) for k, each in enumerate(found) if not isinstance(each, Collective)}
        alone = sum(time.seconds for _, time in of.values())
        matrix, vector, memory = (sum(time.busy[k] for _, time in of.values()) for k in range(3))
        pauses = self._parameters.launch * sum(len(time.units) for _, time in of.values())
        together = side_by_side(matrix, vector, memory, self._parameters) + pauses
        share = together / alone if alone else 1.0
        return [
            each
            if isinstance(each, Collective)
            else Launch(of[k][0], share * of[k][1].seconds, each.reads, each.writes)
            for k, each in enumerate(found)
        ]

    def _time(self, program: Unrun) -> tuple[str, ClusterTime]:
        key = program.key
        if key not in self._work:
            made = program.lowered()
            self._work[key] = made.cluster.name, work(self.chip, made.program, frozenset(made.made.values()))
        if key not in self._times:
            name, found = self._work[key]
            self._times[key] = name, work_time(self.chip, found, self._parameters)
        return self._times[key]
