"""Which ops Habana's own bridge is known to have run on a real card, read from `real_card_ops.csv`.

The op table here has ops that a real card may never have run; a program of such ops is not portable. What is public of
the original's ops is not complete: lists for the bf16 conversion, the beginning of a table of operators, and remarks.
Therefore there is a third answer: that no list names an op says nothing of it.

A line of the file is an op, where the list places it, the list, and in which releases of SynapseAI the list has the
op (empty where the list is undated). An op is on several lines where several lists name it; they must agree.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

LISTS = {
    "bf16 lists": "what Habana's Model-References have the bf16 conversion convert, on HPU",
    "operator table": "Habana's table of TensorFlow operators, as far as it is kept: Abs to ApplyAddSign",
    "models": "Habana's Mask R-CNN, which has the op on HPU unless an option says otherwise",
    "release notes": "the release notes, as an article quotes them: no tf.cond and no tf.while_loop",
    "article": "an article about Gaudi in AWS: no tf.numpy_function",
    "rewriters": "the names of the bridge's graph rewriters in Habana's CycleGAN: WhereAlwaysOnCpu",
}
"""What each list of the file is."""


class RealCard(Enum):
    """Where an op ran with a real card."""

    HPU = "HPU"
    CPU = "CPU"
    """In host memory beside the card, or refused."""
    UNKNOWN = "not known"
    """No list names it, which is no evidence of either."""


@dataclass(frozen=True)
class Known:
    """What the lists say of an op. lists: their names with the releases, as "bf16 lists 0.15.4 to 1.14.0"."""

    where: RealCard = RealCard.UNKNOWN
    lists: tuple[str, ...] = ()


@cache
def listed() -> dict[str, Known]:
    """Every op that a list names."""
    found: dict[str, Known] = {}
    with open(Path(__file__).with_suffix(".csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            where, before = RealCard[row["device"]], found.get(row["op"], Known())
            if before.lists and before.where is not where:
                raise ValueError(f"real_card_ops.csv places {row['op']} on {before.where.value} and on {where.value}")
            if row["list"] not in LISTS:
                raise ValueError(f"real_card_ops.csv has {row['op']} from {row['list']!r}, which LISTS lacks")
            name = " ".join(filter(None, (row["list"], row["releases"])))
            found[row["op"]] = Known(where, (*before.lists, name))
    return found


def known(op: str) -> Known:
    """What the lists say of one op."""
    return listed().get(op, Known())


def by_place(ops: Iterable[str]) -> dict[RealCard, list[str]]:
    """The ops by where they ran with a real card, each once and by name."""
    out: dict[RealCard, list[str]] = {where: [] for where in RealCard}
    for op in sorted(set(ops), key=str.lower):
        out[known(op).where].append(op)
    return out
