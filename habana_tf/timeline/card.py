"""What a card would do during a launch: the one place where the timeline asks for predictions.

`card_launch` is asked once per program when a timeline is written, never while something runs. What it says today is
the roofline of each kernel of the recipe (`hardware.roofline`), one after the other: a lower bound of each, without
overlap, launch overhead or what stays in SRAM. A model of the card takes the place of this one function; the rest of
the timeline draws whatever intervals it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.hardware.chips import Chip
from habana_tf.hardware.roofline import at_least, said
from habana_tf.resolver.programs import Made

from .intervals import CardLaunch, Interval

__all__ = ["basis", "card_launch", "label"]

_PRODUCTS = ("Conv", "MatMul", "Einsum")


def card_launch(made: Made, chip: Chip) -> CardLaunch:
    """What `chip` does in one launch of a program.

    made: the program; `made.provenance()` is its cluster with shapes, to be lowered by a model that needs more than the
    kernels. An interpreted program has no kernels,
    and takes the card no time.
    """
    ops = made.ops()
    hbm = made.hbm()
    at = 0.0
    intervals = []
    for row in made.kernels():
        seconds = at_least(chip, row["engine"], row["flops"], row["bytes"])
        first = row["launches"][0]
        if seconds is None:
            raise ValueError(f"{made.name}: kernel {row} has open sizes, which a launch has not: please report it")
        held = hbm[first] if first < len(hbm) else None
        _, name = label(row, ops)
        intervals.append(
            Interval(row["engine"], at, seconds, name, None, held, row["flops"], row["bytes"])
        )  # fmt: skip
        at += seconds
    return CardLaunch(at, tuple(intervals))


def basis(chip: Chip) -> str:
    """What the predictions rest on, as a sentence for people."""
    return f"Each kernel {said(chip)}; kernels one after the other."


def label(row: dict[str, Any], ops: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Type and name of the op that a kernel is called after: the product it computes, else the last of its ops, to
    which the others lead, else what it does. ops: type and name of the cluster's ops."""
    mine = [ops[k] for k in row["ops"]]
    products = [op for op in mine if any(word in op[0] for word in _PRODUCTS)]
    if row["engine"] == "MME" and products:
        return products[-1]  # it may read a view that an earlier product made first
    return mine[-1] if mine else (str(row["does"]), str(row["does"]))
