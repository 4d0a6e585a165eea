"""The readings of a card's instruments: the source of `hl-smi` and of `pyhlml`.

Memory, utilization and the process are measured (`telemetry`). Power and temperature are modelled, from published
figures of real cards (`chips`):

    power = idle + utilization * (cap - idle)
    temperature = idle + utilization * RISE

so an idle card and a busy one show the values of real cards at rest and at their limit. The rise of the temperature is
an assumption without a published figure. No card has errors or is throttled.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.hardware import telemetry
from habana_tf.hardware.cards import Card, cards
from habana_tf.hardware.chips import Chip, chip

TEMPERATURE_RISE = 30
"""Kelvin between an idle card and one that is always busy: an assumption."""

SOFTWARE = "1.14.0"
"""The release of Habana's software whose interfaces are simulated: the one for TensorFlow 2.15."""
DRIVER_VERSION = f"{SOFTWARE}-simulated"
TOOL_VERSION = f"hl-{SOFTWARE}-fw-0.0.0"


@dataclass(frozen=True)
class Reading:
    """One card at one moment. memory_* in bytes, used with what an idle card's firmware takes; utilization 0 to 1,
    over the last second; watts; celsius. chip: the holder's, else the machine's."""

    card: Card
    chip: Chip
    holder: telemetry.Holder | None
    memory_total: int
    memory_used: int
    utilization: float
    watts: float
    celsius: float

    @property
    def memory_free(self) -> int:
        return self.memory_total - self.memory_used

    @property
    def process_memory(self) -> int:
        """Bytes the holder has taken."""
        return self.holder.telemetry.memory if self.holder and self.holder.telemetry else 0


def read(card: Card) -> Reading:
    """The card now. Raises machine.MachineError."""
    holder = telemetry.holder(card.module_id)
    told = (holder and holder.telemetry) or telemetry.NOTHING
    kind = chip(told.chip) if told.chip else card.chip
    return Reading(
        card=card,
        chip=kind,
        holder=holder,
        memory_total=kind.hbm_bytes,
        memory_used=min(kind.idle_memory_bytes + told.memory, kind.hbm_bytes),
        utilization=told.utilization,
        watts=kind.idle_watts + told.utilization * (kind.power_cap_watts - kind.idle_watts),
        celsius=kind.idle_celsius + told.utilization * TEMPERATURE_RISE,
    )


def read_all() -> list[Reading]:
    """All cards of the machine, in the order of their indices."""
    return [read(card) for card in cards()]


def links(card: Card, external: bool = False) -> dict[int, bool]:
    """Port to whether its link is up: the ports within the machine, with `external` all of them.

    Within the machine each card has the same number of links to each of its seven possible peers (three on Gaudi2);
    those to cards that this machine does not have are down. Ports that leave it lead nowhere, so they are down.
    """
    kind = card.chip
    inside = [port for port in range(kind.ports) if port not in kind.external_ports]
    per_peer = len(inside) // 7
    up = set(inside[: per_peer * (len(cards()) - 1)])
    return {port: port in up for port in range(kind.ports) if external or port not in kind.external_ports}
