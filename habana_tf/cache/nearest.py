"""Why a key was not found: which of its parts differ from the nearest entry.

The first part of a key says *what* is computed (the cluster, or the program of a single op). An entry of the same
cluster is nearer than any other, then counts the number of parts that differ, then the more recent one: "the same
cluster for other input shapes" is an answer, "another cluster for the same shapes" is hardly one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from habana_tf.cache.key import Key


@dataclass(frozen=True)
class Candidate:
    """An entry's key as digests of its parts, by name. created: seconds since the epoch."""

    digest: str
    name: str
    created: float
    parts: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, key: Key, name: str, created: float) -> Candidate:
        """The candidate of a key."""
        return cls(key.digest, name, created, _digests(key))

    def differs(self, key: Key) -> list[str]:
        """Names of the parts that differ, in the order of `key`, then those only this one has."""
        ours, theirs = dict(_digests(key)), dict(self.parts)
        names = [*ours, *(name for name in theirs if name not in ours)]
        return [name for name in names if ours.get(name) != theirs.get(name)]


def nearest(key: Key, candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate that is most like `key`, or None when there is none with a part in common."""
    ours = dict(_digests(key))
    best, best_rank = None, None
    for candidate in candidates:
        theirs = dict(candidate.parts)
        same = sum(theirs.get(name) == digest for name, digest in ours.items())
        first = key.parts[0].name if key.parts else ""
        rank = (first in theirs and theirs[first] == ours.get(first), same - len(theirs), candidate.created)
        if same and (best_rank is None or rank > best_rank):
            best, best_rank = candidate, rank
    return best


def _digests(key: Key) -> tuple[tuple[str, bytes], ...]:
    return tuple((part.name, blake2b(part.encoded(), digest_size=8).digest()) for part in key.parts)
