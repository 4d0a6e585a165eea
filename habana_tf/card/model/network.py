"""How long the cards of a job take to sum their gradients, and how much of that the step waits for.

Every card of a box is linked to every other; a sum is a reduce-scatter and an all-gather over all links at once. With
several boxes of eight, each card then has an eighth of the sum, and adds it to that of the cards in the same position
of the other boxes, in a ring over the ports that leave the box. Gradients are collected in buffers (Horovod's tensor
fusion) in the order in which the backward pass makes them, and are sent while it goes on.

    in a box of n      2 * bytes / n / (ports per peer * port)                             seconds
    over m boxes       2 * (m - 1) / m * (bytes / 8) / (ports that leave * port)
    by the host        the same over its own network, `HOST_BANDWIDTH` for the box, shared by eight cards

Ports run at line rate; `Parameters.skew` is what cards lose by waiting for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.hardware.chips import Chip

BOX = 8
"""Cards in a box (HLS-1, HLS-Gaudi2, DL1)."""
HOST_BANDWIDTH = 50_000_000_000
"""Bytes per second of a host's own network in one direction: 400 Gb/s, as AWS publishes for DL1."""
FUSION_BYTES = 64 << 20
"""Horovod's fusion threshold (its documentation: 64 MB)."""


def sum_seconds(chip: Chip, nbytes: int, cards: int, hop: float, by_host: bool = False) -> float:
    """Time of one sum over all cards. hop: seconds that a message takes besides its bytes. by_host: between boxes over
    the hosts' network instead of the cards' own ports."""
    if cards == 1:
        return 0.0
    inside, boxes = min(cards, BOX), -(-cards // BOX)
    per_peer = (chip.ports - len(chip.external_ports)) // (BOX - 1)
    seconds = 2 * nbytes / inside / (per_peer * chip.port_bandwidth) + 2 * hop
    if boxes > 1:
        out = HOST_BANDWIDTH / BOX if by_host else len(chip.external_ports) * chip.port_bandwidth
        seconds += 2 * (boxes - 1) * (nbytes / inside / boxes / out + hop)
    return seconds


def exposed_seconds(
    chip: Chip, ready: Sequence[tuple[float, int]], cards: int, hop: float, by_host: bool = False
) -> tuple[float, float]:
    """(seconds that the network works, seconds after the last gradient until the last sum is there).

    ready: when each gradient is made, and its bytes.
    """
    if cards == 1 or not ready:
        return 0.0, 0.0
    order = sorted(ready)
    busy, free, waiting = 0.0, 0.0, 0
    for k, (at, nbytes) in enumerate(order):
        waiting += nbytes
        if waiting >= FUSION_BYTES or k == len(order) - 1:
            took = sum_seconds(chip, waiting, cards, hop, by_host)
            busy, free, waiting = busy + took, max(free, at) + took, 0
    return busy, max(0.0, free - order[-1][0])
