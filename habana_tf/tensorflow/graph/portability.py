"""What of a program's placement would hold on a real card: its ops by where they ran with one, as far as it is known.

The placement report and the explanation say it, each op once. Looked up when a report is made, not by the graph pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from habana_tf.reports.units import few
from habana_tf.tensorflow.lowering.real_card_ops import RealCard, by_place, known

MOST_NAMES = 30
"""Ops that are named in one line; all are in `to_dict()`."""


def rows(on_hpu: Mapping[str, int], on_cpu: Mapping[str, int]) -> list[dict[str, Any]]:
    """Ops as {op, count, device, real_card, lists}: device is where they are here, real_card where they were with a
    real card (HPU, CPU, not known), lists what names them. Those of HPU first, each by name."""
    return [
        {
            "op": op, "count": counts[op], "device": device, "real_card": known(op).where.value,
            "lists": list(known(op).lists),
        }
        for device, counts in (("HPU", on_hpu), ("CPU", on_cpu)) for op in sorted(counts, key=str.lower)
    ]  # fmt: skip


def shown(on_hpu: Collection[str], lacking: Collection[str]) -> list[str]:
    """How many kinds of op a real card ran, and the names of the others, each once. lacking: ops on the CPU because HPU
    has none of that name here."""
    if not on_hpu and not lacking:
        return []
    places = by_place(on_hpu)
    ran, off, unknown = (places[where] for where in (RealCard.HPU, RealCard.CPU, RealCard.UNKNOWN))
    of = f"of {len(on_hpu)} kind{'' if len(on_hpu) == 1 else 's'} of op on HPU here"
    verb = "is" if len(ran) == 1 else "are"
    out = [f"On a real card (docs/placement.md): {of}, {len(ran)} {verb} known to have run there."]
    if off:
        out.append(f"Known to have run on the CPU beside a real card, or not at all: {_named(off)}.")
    if unknown:
        out.append(f"Not known, since no list that we have names them: {_named(unknown)}.")
    if away := by_place(lacking)[RealCard.HPU]:
        out.append(f"On the CPU here, known to have run on a real card: {_named(away)}.")
    return out


def _named(ops: list[str]) -> str:
    return few(ops, MOST_NAMES, "ops")
