"""What to do about shapes that change: pad, bucket or drop the remainder, and how many recipes that leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from habana_tf.cluster.cluster import OF_OPS
from habana_tf.cluster.signature import Number, Signature, Slot
from habana_tf.reports.units import few

_NAMED = 2
_SIZES = 6


def remedies(signatures: Sequence[Signature], called: Sequence[str], fed: Sequence[bool]) -> list[str]:
    """One line for each cause, the one with the most inputs first. called: the inputs' names; fed: whether the program
    or its dataset gives them, so that it can give them another size.

    Sizes that change together have one cause: the batch, say. How many recipes are left is counted, not guessed: it is
    the number of signatures that still differ where these sizes are all the same.
    """
    if len(signatures) < 2:
        return []
    last = signatures[-1].slots
    same = [s for s in signatures if s.slots == last]
    lines = [] if len(same) == len(signatures) else ["inputs of one rank in every call: each rank is a recipe"]
    patterns: dict[tuple[int, ...], list[int]] = {}
    for k in range(len(last)):
        met = [s.numbers[k] for s in same]
        if len(set(met)) > 1:
            patterns.setdefault(tuple(map(met.index, met)), []).append(k)
    causes = sorted(patterns.values(), key=len, reverse=True)
    for changing in causes:
        left = _left(same, changing)
        saves = f": a real card compiles {left} instead of {len(same)}" if left < len(same) else ""
        lines.append(_line(same, changing, called, fed) + saves)
    if len(causes) > 1:
        left = _left(same, [k for cause in causes for k in cause])
        lines.append(f"all of these: a real card compiles {left} instead of {len(same)}")
    return lines


def _left(same: Sequence[Signature], changing: Sequence[int]) -> int:
    """The signatures that differ in something else."""
    gone = frozenset(changing)
    return len({tuple(n for k, n in enumerate(s.numbers) if k not in gone) for s in same})


def _line(same: Sequence[Signature], changing: list[int], called: Sequence[str], fed: Sequence[bool]) -> str:
    slots = {k: same[-1].slots[k] for k in changing}
    axes = {k: slot for k, slot in slots.items() if not slot.value}
    if not axes:
        if all(called[slot.input].startswith(OF_OPS) for slot in slots.values()):
            return "lengths or places that ops take: where it is a place (x[:, t]), have t on the card (index_select)"
        return f"{_names(slots.values(), called)}: the same value in every call"
    own = {k: slot for k, slot in axes.items() if fed[slot.input]}
    shown = own or axes
    first = next(iter(shown))
    met = [_int(s.numbers[first]) for s in same]
    sizes = sorted(set(met))
    alike = [slot for k, slot in shown.items() if [s.numbers[k] for s in same] == met]
    where = f"{_names(alike, called)} axis {slots[first].axis}, of size {_listed(sizes)}"
    if not own:
        return f"{where}: a result whose size depends on data; give it one size (`size=`, tf.boolean_mask as tf.where)"
    most = sizes[-1]
    if slots[first].axis == 0 and len(sizes) == 2 and met[0] == most:
        return f"{where}: drop the remainder (batch(..., drop_remainder=True)), or pad it to {most}"
    buckets = sorted({1 << (n - 1).bit_length() for n in sizes if n > 0})
    fewer = f", or to {len(buckets)} buckets ({_listed(buckets)})" if 1 < len(buckets) < len(sizes) else ""
    return f"{where}: pad it to {most}{fewer}"


def _names(slots: Iterable[Slot], called: Sequence[str]) -> str:
    names = [called[k] for k, _ in groupby(slot.input for slot in slots)]
    return few(names, _NAMED, "inputs")


def _int(size: Number) -> int:
    assert isinstance(size, int), "only a value may be bytes"
    return size


def _listed(sizes: Sequence[int]) -> str:
    shown = [str(n) for n in sizes]
    return ", ".join(shown) if len(shown) <= _SIZES else ", ".join([*shown[: _SIZES - 1], "...", shown[-1]])
