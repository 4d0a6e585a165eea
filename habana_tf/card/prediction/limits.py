"""What a step waits for most: the card's engines, its memory, the network, PCIe, the input pipeline or Python."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from habana_tf.card.model.host import Host
from habana_tf.card.model.step_time import StepTime

UNITS = {"MME": "compute", "TPC": "compute"}
"""What a unit's bound is called here, where it is not its own name."""


@dataclass(frozen=True)
class Limits:
    """Of a step of `batch` examples on each card. Seconds: of the step, and of the card, the input and Python alone.

    bound: compute, memory, launch, network, waiting for cards, PCIe, input or Python. cards_per_host: of a full box, or
    all cards if they are fewer. needed_input_rate: examples per second that the input of each host must give for no
    step to wait for it.
    pipelines_needed: see `Host.pipelines_needed`. fed_examples_per_second, fed_bound: with such an input.
    """

    seconds: float
    card: float
    input: float
    python: float
    bound: str
    cards_per_host: int
    needed_input_rate: float
    pipelines_needed: int | None
    fed_examples_per_second: float
    fed_bound: str

    @property
    def input_bound(self) -> bool:
        return self.bound == "input"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "input_bound": self.input_bound}


def limits(step: StepTime, batch: int, host: Host) -> Limits:
    """The limits of a step whose cards are fed by such hosts. batch: examples of one step on one card."""
    here = min(step.cards, step.box.cards)
    card = step.seconds
    loading = host.input_seconds(batch, here)
    known = {card_bound(step): card, "Python": host.python_seconds}
    fed_bound = max(known, key=known.__getitem__)
    fed = host.fed_seconds(card)
    ahead = max(card, host.python_seconds)
    return Limits(
        host.step_seconds(card, batch, here), card, loading, host.python_seconds,
        "input" if loading > ahead else fed_bound, here, batch * here / ahead if ahead else 0.0,
        host.pipelines_needed(card, batch, here), batch * step.cards / fed if fed else 0.0, fed_bound,
    )  # fmt: skip


def card_bound(step: StepTime) -> str:
    """What takes most of a step's time on the cards: compute, memory, launch, network, waiting for cards or PCIe."""
    if step.copies > step.working:
        return "PCIe"
    parts: defaultdict[str, float] = defaultdict(float)
    for u in step.units:
        parts[UNITS.get(u.bound, u.bound)] += u.seconds
    whole = sum(parts.values())
    shares = {name: seconds / whole * step.launches for name, seconds in parts.items()} if whole else {}
    shares = shares or {"compute": step.launches}
    shares |= {"network": step.network_alone, "waiting for cards": step.waiting}
    return max(shares, key=shares.__getitem__)


def said(found: Limits, host: Host) -> list[str]:
    """The limits in a line, and where the input is one, what would lift it in another."""
    needed, rate = f"{found.needed_input_rate:,.0f}", host.rate(found.cards_per_host)
    if not found.input_bound:
        gives = f"; it gives {rate:,.0f} ({host.source})" if host.input_rate is not None else ""
        return [f"bound by {found.bound}; the input of each host must give {needed} examples/s{gives}"]
    ahead = "" if host.prefetch else ", loaded ahead (prefetch)"
    after = f"then {found.fed_examples_per_second:,.0f} examples/s, bound by {found.fed_bound}"
    return [
        f"bound by input: each host gives {rate:,.0f} examples/s ({host.source}) and its cards could take {needed}",
        f"would help: {pipelines(found, host)}{ahead}; {after}",
    ]


def pipelines(found: Limits, host: Host) -> str:
    """How many of them would do, in words."""
    count = found.pipelines_needed or 1
    if host.loaders is None:
        return f"{count} such pipelines on each host"
    of_host = f", {count * found.cards_per_host} on each host" if found.cards_per_host > 1 else ""
    return f"{count} loader processes for each card instead of {host.loaders}{of_host}"
