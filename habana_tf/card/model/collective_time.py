"""How long a collective takes, by where its ranks sit: those of one box are linked to each other, boxes by the ports
that leave them.

A rank is card `rank % cards` of box `rank // cards`. With several boxes a collective is one in each box, and one of the
cards in the same position of all boxes, each with its part (docs.habana.ai, hierarchical collectives).

    n ranks in a box, m boxes; link: bytes per second between two cards; leave: bytes per second that leave the box
    all_gather, reduce_scatter   bytes / n / link                +  (m - 1) / m * bytes / n / leave
    all_reduce                   both of them
    broadcast, reduce, ..        as all_gather: parts, then gathered
    all_to_all                   bytes / (n m) / link            +  bytes * (m - 1) / m / leave
    send                         bytes / link in a box, bytes / leave between boxes

Bytes are those of the larger side: of what is gathered, or of what is scattered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from habana_tf.hardware.boxes import Box
from habana_tf.hardware.chips import Chip

TWICE = frozenset({"all_reduce"})
"""Collectives that are two: a reduce-scatter and an all-gather."""


def collective_seconds(chip: Chip, box: Box, kind: str, nbytes: int, ranks: Sequence[int], hop: float) -> float:
    """Seconds of one collective of these ranks of the job. kind: all_reduce, all_gather, reduce_scatter, all_to_all,
    broadcast, reduce, gather, scatter, send or barrier; hop: seconds that a message takes besides its bytes."""
    count = len(ranks)
    if count < 2:
        return 0.0
    in_box = Counter(rank // box.cards for rank in ranks)
    inside, boxes = max(in_box.values()), len(in_box)
    link = box.per_peer * chip.port_bandwidth if not box.switched else box.outside_bandwidth / max(count - 1, 1)
    if box.switched:
        inside, boxes = count, 1
    if kind == "barrier":
        return hop * (1 + (boxes > 1))
    if kind == "send":
        return hop + nbytes / (link if boxes == 1 else box.outside_bandwidth)
    if kind == "all_to_all":
        seconds = nbytes / count / link + hop if inside > 1 else 0.0
        return seconds + ((boxes - 1) / boxes * nbytes / box.outside_bandwidth + hop if boxes > 1 else 0.0)
    once = nbytes / inside / link + hop if inside > 1 else 0.0
    if boxes > 1:
        once += (boxes - 1) * (nbytes / inside / boxes / box.outside_bandwidth + hop)
    return once * (2 if kind in TWICE else 1)
