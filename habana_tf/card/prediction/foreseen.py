"""What a front end finds out about a step without running it: the input of a prediction."""

from __future__ import annotations

from dataclasses import dataclass, field

from habana_tf.card.model.lowered import Lowered
from habana_tf.card.prediction.prediction import HostOp, Transfer


class PredictionError(RuntimeError):
    """Nothing can be predicted; the message says what is missing."""


@dataclass(frozen=True)
class BoundedSize:
    """An op whose result is as large as its values say, and the most that it can be, which is counted. op: its type;
    name: the node's; shape: of its first result whose size is bounded. drawn: one draw of random numbers."""

    op: str
    name: str
    shape: tuple[int, ...]
    drawn: bool = False


@dataclass
class Foreseen:
    """Launches in the order of the graph; arguments: the function's, by name, of which `fed` has the bytes that
    launches read; transfers: what ops of the host give to launches and take from them; loops: of the host, whose trips
    are not known; work of the host; sizes that depend on values."""

    launches: list[Lowered] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    fed: dict[str, int] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    host: list[HostOp] = field(default_factory=list)
    bounds: list[BoundedSize] = field(default_factory=list)
