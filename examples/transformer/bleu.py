"""BLEU: how much of translations is also in what they should be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

MOST = 4  # words in a run that is looked for


def _runs(text: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each run of n words is in a text."""
    return Counter(tuple(text[k : k + n]) for k in range(len(text) - n + 1))


def bleu(made: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """BLEU of all sentences together, in percent, with one reference each (Papineni et al., 2002), unsmoothed.

    The geometric mean over runs of one to four words of the part of those made that are in the reference, each counted
    as often as it is there; less where the whole is shorter than the references.
    """
    found, there = [0] * MOST, [0] * MOST
    for one, reference in zip(made, wanted, strict=True):
        for n in range(1, MOST + 1):
            runs = _runs(one, n)
            found[n - 1] += (runs & _runs(reference, n)).total()
            there[n - 1] += runs.total()
    if not all(found):
        return 0.0
    mean = math.exp(sum(math.log(a / b) for a, b in zip(found, there, strict=True)) / MOST)
    length, reference_length = sum(map(len, made)), sum(map(len, wanted))
    return 100 * mean * min(1.0, math.exp(1 - reference_length / length))
