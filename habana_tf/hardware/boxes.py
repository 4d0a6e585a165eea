"""The machines that cards are sold in: how many cards, and how they are linked.

Two ways: every card of a box is linked to every other by ports of its own, and a few ports leave the box; or all ports
of each card go to a switch, and boxes do not matter to the network.

Sources: Habana's and Supermicro's data sheets of HLS-1 and HLS-Gaudi2, the system descriptions of MLPerf Training v1.1
and v2.0 (HLS-1H), the instance page of AWS (DL1), Intel's paper on HLB-325.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.hardware.chips import Chip, chip


@dataclass(frozen=True)
class Box:
    """A machine. cards: of one. inside: ports of a card that go to the other cards of its box, 0 where all go to a
    switch. outside_bandwidth: bytes per second that a card sends out of the box, or to the switch."""

    name: str
    chip: str
    cards: int
    inside: int
    outside_bandwidth: float

    @property
    def switched(self) -> bool:
        """Whether all cards, of this box and others, meet in one switch."""
        return self.inside == 0

    @property
    def per_peer(self) -> int:
        """Ports between two cards of a box."""
        return self.inside // (self.cards - 1)


def _ports(name: str, count: int) -> float:
    return count * chip(name).port_bandwidth


HOST_BANDWIDTH = 50_000_000_000
"""Bytes per second of a DL1's own network in one direction: 400 Gb/s, for its eight cards."""

_BOXES = (
    Box("HLS-1", "gaudi", 8, 7, _ports("gaudi", 3)),
    Box("HLS-1H", "gaudi", 4, 0, _ports("gaudi", 10)),
    Box("DL1", "gaudi", 8, 7, HOST_BANDWIDTH / 8),
    Box("HLS-Gaudi2", "gaudi2", 8, 21, _ports("gaudi2", 3)),
    Box("HLB-325", "gaudi3", 8, 21, _ports("gaudi3", 3)),
)


def boxes() -> tuple[Box, ...]:
    """All boxes, the usual one of each chip before the others."""
    return _BOXES


def box(of: Chip, name: str | None = None) -> Box:
    """The box called `name` (in any case), by default the usual one of the chip.

    Raises ValueError for a name that is none of this chip's boxes.
    """
    known = [each for each in _BOXES if each.chip == of.name]
    if name is None:
        return known[0]
    for each in known:
        if each.name.lower() == name.lower():
            return each
    raise ValueError(f"no box of {of.name} cards is called {name!r}: use one of {', '.join(e.name for e in known)}")
