"""The timeline of one process as plain data ("a part"): what was recorded, explained, and what the card would do.

A part is JSON data: each rank of a job writes its own (`folder`), and one command puts them together:

    rank, size, pid, host, command, chip, tensorflow, horovod    which process; horovod: whether that was loaded
    clock       {"monotonic", "realtime", "boot"}, begin, end: nanoseconds, see `record.Clock`
    threads     [{"id", "hash", "name", "events": [[start, end, subject, kind, detail, threads, hbm], ...]}]
    programs    {number: {"name", "how", "seconds", "kernels": [...], "hbm": [...], "card": {...} or null}}: of "card"
                see `intervals.CardLaunch`; null where the program is no longer known
    ops         {number: name} of ops on the CPU
    cpu         [[thread, name, start, end], ...] of TensorFlow's own profiler, where it was asked for
    marks       [[name, time], ...] set by the program
    dropped     events for which there was no memory
    basis       the assumptions of the predictions, as a sentence
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from habana_tf.card.timeline.card import basis, card_launch, label
from habana_tf.card.timeline.record import EventKind, Record
from habana_tf.hardware import ranks
from habana_tf.hardware.chips import Chip, chip
from habana_tf.resolver import programs


def make(
    record: Record, cpu: Sequence[tuple[str, str, int, int]] = (), marks: Sequence[tuple[str, int]] = ()
) -> dict[str, Any]:
    """The part of this process. cpu: (thread, name, start, end) in nanoseconds of the record's clock; marks: (name,
    time)."""
    card = chip()
    place = ranks.here()
    numbers = sorted(
        {e.subject for e in record.events(EventKind.LAUNCH)} | {e.subject for e in record.events(EventKind.RESOLVE)}
    )
    return {
        "rank": place.rank,
        "size": place.size,
        "pid": os.getpid(),
        "host": platform.node(),
        "command": " ".join(sys.argv),
        "chip": card.name,
        "horovod": "horovod.tensorflow.mpi_ops" in sys.modules,
        "tensorflow": getattr(sys.modules.get("tensorflow"), "__version__", ""),
        "clock": {"monotonic": record.clock.monotonic, "realtime": record.clock.realtime, "boot": record.clock.boot},
        "begin": record.begin,
        "end": record.end,
        "threads": [
            {"id": t.id, "hash": t.hash, "name": t.name, "events": [list(e) for e in t.events]} for t in record.threads
        ],
        "programs": {str(n): described(n, record.programs.get(n, ""), card) for n in numbers if n},
        "ops": {str(n): name for n, name in record.ops.items()},
        "cpu": [list(each) for each in cpu],
        "marks": [list(each) for each in marks],
        "dropped": record.dropped,
        "basis": basis(card),
    }


def described(number: int, name: str, on: Chip) -> dict[str, Any]:
    """A program with its kernels, the HBM it holds and what the card would do. Without kernels where it is interpreted,
    or was resolved so long ago that nothing is known of it: then "how" is "forgotten"."""
    made = programs.find(number)
    if made is None:
        return {"name": name, "how": "forgotten", "seconds": 0.0, "kernels": [], "hbm": [], "card": None}
    ops = made.ops()
    kernels = [
        {
            "name": name, "op": type_, "engine": row["engine"], "does": row["does"], "shape": row["shape"],
            "fused": row["fused"], "ops": [" ".join(ops[k]) for k in row["ops"]],
            "flops": row["flops"], "bytes": row["bytes"], "times": row.get("times", 1), "calls": row["launches"],
        }
        for row in made.kernels()
        for type_, name in [label(row, ops)]
    ]  # fmt: skip
    return {
        "name": made.name,
        "how": made.how,
        "seconds": made.seconds,
        "kernels": kernels,
        "hbm": made.hbm(),
        "card": card_launch(made, on).to_dict(),
    }


def by_call(kernels: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """A program's kernels by the number of their calls."""
    return {k: row for row in kernels for k in range(row["calls"][0], sum(row["calls"]))}
