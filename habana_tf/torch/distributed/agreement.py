"""Whether the ranks of a host call the same collective, known before gloo begins it: sizes that differ end its process.

Each rank writes kind and bytes of what it calls into memory that all share, by number, and looks at what is there of
the others. So the last rank to come always sees that another one called something else.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from habana_tf.card.prediction.ranks import Collective

_KEPT = 64
"""Of each rank the last collectives that are there."""


class Agreement:
    """gather: given numbers, a matrix with those of one rank per row, of ranks that see each other's processes."""

    def __init__(self, gather: Callable[..., Any], rank: int, size: int) -> None:
        shape = (size, _KEPT, 3)
        nbytes = int(np.prod(shape)) * 8
        held = os.memfd_create("collectives") if rank == 0 else -1
        if rank == 0:
            os.ftruncate(held, nbytes)
        process, number = gather(os.getpid(), held)[0]
        if rank != 0:
            held = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR)
        self._said = np.frombuffer(mmap.mmap(held, nbytes), np.int64).reshape(shape)
        gather(0)  # all have it
        os.close(held)
        self._rank = rank

    def holds(self, number: int, what: Collective) -> bool:
        """Says what this rank calls as its collective of that number; whether no other one called something else."""
        kind, nbytes = zlib.crc32(what.kind.encode()), what.agreed[1]
        there = self._said[:, number % _KEPT]
        there[self._rank, 1:] = kind, nbytes
        there[self._rank, 0] = number  # last: others look for it
        met = there[there[:, 0] == number]
        return bool((met[:, 1:] == (kind, nbytes)).all())
