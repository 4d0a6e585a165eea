"""The four numbers of the model that no data sheet has, fitted to the published rows in `docs/fidelity.md`.

Everything else that the model knows of a chip is in `hardware.chips`, with its source.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameters:
    """Four, for every chip, network and number of cards."""

    hidden: float
    """Share of the shorter of MME and TPC work that is done while the other engine works."""
    tpc_rate: float
    """Vector instructions that a TPC issues per cycle, on average: one at most."""
    launch: float
    """Seconds that an engine stands still between two pieces of work."""
    skew: float
    """Share of a step that cards wait for each other, for each doubling of their number."""


FITTED = Parameters(hidden=0.505, tpc_rate=0.42, launch=6.5e-6, skew=0.0147)
