"""`hl-smi -n`: the network ports of the cards, and `hl-smi topo -c`: where on the host they are."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.cli.output import CommandError
from habana_tf.hardware import readings
from habana_tf.hardware.cards import Card

KINDS = ("link", "ports", "stats")


def show(cards: Sequence[Card], kind: str, ports: str | None) -> None:
    """Prints one line per port; with several cards a line with the address of each before its ports.

    kind: link (UP or DOWN; without a list of ports those within the machine), ports (internal or external).
    ports: a list separated by commas. Raises CommandError.
    """
    if kind == "stats":
        raise CommandError("the simulated network counts no packets: -n link and -n ports are simulated", 1)
    for card in cards:
        state = readings.links(card, external=True)
        inside = readings.links(card)
        wanted = list(inside if kind == "link" else state) if ports is None else _ports(ports, state)
        if len(cards) > 1:
            print(f"{card.bus_id}")
        for port in wanted:
            word = ("UP" if state[port] else "DOWN") if kind == "link" else "internal" if port in inside else "external"
            print(f"port {port:2d}:\t{word}")


def _ports(text: str, known: dict[int, bool]) -> list[int]:
    chosen = [part.strip() for part in text.split(",")]
    wrong = [part for part in chosen if not part.isdigit() or int(part) not in known]
    if wrong:
        raise CommandError(f"no port {', '.join(wrong)}: a card has the ports 0 to {max(known)}", 2)
    return [int(part) for part in chosen]


def topology(cards: Sequence[Card]) -> None:
    """Prints the host's cores and memory nodes; a simulated card is as near to one as to another."""
    cores, nodes = _read("cpu/online"), _read("node/online")
    print(f"{'modID':<8}{'CPU Affinity':<24}NUMA Affinity")
    print(f"{'-----':<8}{'------------':<24}-------------")
    for card in cards:
        print(f"{card.module_id:<8}{cores:<24}{nodes}")


def _read(name: str) -> str:
    try:
        with open(f"/sys/devices/system/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "N/A"
