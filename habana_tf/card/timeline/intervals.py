"""The prediction of one launch as data: the intervals in which engines work, bundles, memory in use, results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from habana_tf.card.model.occupancy import InUse


@dataclass(frozen=True)
class Interval:
    """A product or a kernel at work, in seconds from the start of the launch.

    engine: MME or TPC. name, op: of the op it came from, as the user's graph names it, and its type. ops: type and name
    of all ops that are computed in it. bundle: of `CardLaunch.bundles`, by number. bound: what it takes its time for:
    MME, TPC, memory or launch. flops, nbytes: operations, and bytes to and from HBM.
    """

    engine: str
    start: float
    seconds: float
    name: str
    op: str
    ops: tuple[str, ...]
    bundle: int
    bound: str
    flops: int
    nbytes: int


@dataclass(frozen=True)
class Bundle:
    """From the beginning of its first unit to the end of its last. name: of the op that its product, or else its first
    unit, came from."""

    start: float
    seconds: float
    name: str


@dataclass(frozen=True)
class LaunchResult:
    """A result that leaves the launch and is no variable's new value: its bytes, and when it is there."""

    at: float
    nbytes: int


@dataclass(frozen=True)
class CardLaunch:
    """One launch of a program on a card.

    seconds: of all of it. hidden: of these, in which two engines work. drawn: what the model's seconds of each unit
    were multiplied by to be drawn (see `card.model.engine_schedule`). why: where nothing can be predicted, the reason;
    then `seconds` is 0 and all else is empty.
    """

    seconds: float
    hidden: float = 0.0
    drawn: float = 1.0
    intervals: tuple[Interval, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    use: tuple[InUse, ...] = ()
    results: tuple[LaunchResult, ...] = ()
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
