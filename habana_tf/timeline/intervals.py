"""What a prediction of a launch is: engines at work, one interval each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ENGINES", "CardLaunch", "Interval"]

ENGINES = ("MME", "TPC", "DMA", "network", "bundle")
"""Lanes of a card; a bundle spans the engines that work on it."""


@dataclass(frozen=True)
class Interval:
    """An engine at work, in seconds from the start of the launch.

    name: the op it works on, as the user's graph names it. sram_bytes, hbm_bytes: in use meanwhile; None where nothing
    is known. flops, nbytes: the work, for a roofline.
    """

    engine: str
    start: float
    seconds: float
    name: str
    sram_bytes: int | None = None
    hbm_bytes: int | None = None
    flops: int = 0
    nbytes: int = 0


@dataclass(frozen=True)
class CardLaunch:
    """One launch of a program on a card. seconds: from its start to the end of its last interval."""

    seconds: float
    intervals: tuple[Interval, ...]
