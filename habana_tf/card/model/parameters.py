"""The numbers of the model that no data sheet has, fitted to published rows: see `docs/fidelity.md`.

Everything else that the model knows of a chip is in `hardware.chips`, with its source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Parameters:
    """Nine, for every network and number of cards: five fitted to all kinds of networks, four to language models."""

    hidden: float
    """Share that is hidden behind the busiest of MME, TPC and HBM, of the work of the second busiest."""
    tpc_rate: float
    """Vector instructions that a TPC issues per cycle with release 1.10 and later, on average: one at most."""
    early: float
    """How much longer kernels of the TPC took in release 1.0, as a share; by 1.10 that was gone."""
    launch: float
    """Seconds between two pieces of work of an engine."""
    skew: float
    """Standard deviation of a card's step, as a share of it. Cards wait for the slowest of them."""
    graph: float = 5.75e-6
    """Seconds between two pieces of work of a program in an HPU graph, whose preparation goes on beside the work before
    them."""
    attention: float = 1.0
    """How long a causal attention takes (`attention`), as a share of computing all of its scores as other kernels do:
    half of them are above the diagonal, and its exponentials are fast."""
    streamed: float = 1.0
    """Share of the MME's rate that a product reaches of which neither an operand nor the result stays in SRAM, where
    other products and kernels are under way: not in a chain (`cluster_time`)."""
    gaudi3: float = 1.0
    """Share of its MME's rate that a Gaudi3 reaches there. The best product found on one reaches three quarters."""

    def at(self, release: str) -> Parameters:
        """The parameters of a release: its kernels' rate."""
        return replace(self, tpc_rate=self.tpc_rate / (1 + self.early * (1 - _age(release))), early=0.0)


LATEST = "1.14"
"""The release that a prediction stands for if none is named: the last with TensorFlow."""
SETTLED = 10
"""Minor number of the release whose kernels later ones did not improve on."""


def check_release(release: str) -> str:
    """The release. Raises ValueError if it is no number of one: "1.4", "1.10.0"."""
    if not re.fullmatch(r"\d+\.\d+(\.\d+)*", release):
        raise ValueError(f"release={release!r}: give that of Habana's software, such as '1.4' or '1.10.0'")
    return release


def _age(release: str) -> float:
    """0 for release 1.0 and before, 1 for 1.10 and after it."""
    major, minor = map(int, release.split(".")[:2])
    if major != 1:
        return float(major > 1)
    return min(1.0, minor / SETTLED)


FITTED = Parameters(
    hidden=0.797, tpc_rate=0.597, early=0.629, launch=4.6e-6, skew=0.0173, attention=0.35, streamed=0.66, gaudi3=0.4
)

LATEST_FITTED = FITTED.at(LATEST)
"""Those of the release that a prediction stands for."""

SPREAD = 0.19
"""Nine of ten published rows are within this share of the prediction by parameters fitted without their group."""
