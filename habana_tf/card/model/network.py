"""How long the cards of a job take to sum their gradients, and how much of that the step waits for.

Where the cards of a box are linked to each other, a sum is a reduce-scatter and an all-gather over all links at once.
With several boxes, each card then has its part of the sum, and adds it to that of the cards in the same position of
the other boxes, in a ring over the ports that leave the box. Where all ports go to a switch, all cards of the job
exchange their parts at once. Gradients are collected in buffers (Horovod's tensor fusion) in the order in which the
backward pass makes them, and are sent while it goes on.

    in a box of n      2 * bytes / n / (ports per peer * port)                             seconds
    over m boxes       2 * (m - 1) / m * (bytes / n) / bandwidth that leaves the box
    over a switch      2 * (n - 1) / n * bytes / bandwidth of all ports, n of the job

Ports run at line rate; `Parameters.skew` is what cards lose by waiting for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from habana_tf.hardware.boxes import Box
from habana_tf.hardware.chips import Chip

FUSION_BYTES = 64 << 20
"""Horovod's fusion threshold (its documentation: 64 MB)."""


def slowest(cards: int) -> float:
    """How many standard deviations the slowest of so many cards is behind their mean: for large numbers of normally
    distributed times sqrt(2 ln n), which none exceeds on average."""
    return math.sqrt(2 * math.log(cards))


def sum_seconds(chip: Chip, box: Box, nbytes: int, cards: int, hop: float) -> float:
    """Time of one sum over all cards. hop: seconds that a message takes besides its bytes."""
    if cards == 1:
        return 0.0
    if box.switched:
        return 2 * (cards - 1) * (nbytes / cards / box.outside_bandwidth) + 2 * hop
    inside, boxes = min(cards, box.cards), -(-cards // box.cards)
    seconds = 2 * nbytes / inside / (box.per_peer * chip.port_bandwidth) + 2 * hop
    if boxes > 1:
        seconds += 2 * (boxes - 1) * (nbytes / inside / boxes / box.outside_bandwidth + hop)
    return seconds


def exposed_seconds(
    chip: Chip, box: Box, ready: Sequence[tuple[float, int]], cards: int, hop: float
) -> tuple[float, float]:
    """(seconds that the network works, seconds after the last gradient until the last sum is there).

    ready: when each gradient is made, and its bytes.
    """
    if cards == 1 or not ready:
        return 0.0, 0.0
    busy = free = last = 0.0
    for last, nbytes, _ in fused(ready):
        took = sum_seconds(chip, box, nbytes, cards, hop)
        busy, free = busy + took, max(free, last) + took
    return busy, max(0.0, free - last)


def fused(ready: Sequence[tuple[float, int]]) -> Iterator[tuple[float, int, int]]:
    """What is summed at once of tensors that are ready at some moments, with so many bytes: the moment, the bytes, how
    many tensors."""
    waiting, count, order = 0, 0, sorted(ready)
    for k, (at, nbytes) in enumerate(order):
        waiting, count = waiting + nbytes, count + 1
        if waiting >= FUSION_BYTES or k == len(order) - 1:
            yield at, waiting, count
            waiting, count = 0, 0
