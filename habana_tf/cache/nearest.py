"""Explains a miss: which parts of the key differ from the nearest entry.

The first part of a key says *what* is computed (the cluster, or the program of a single op). An entry of the same
cluster is nearer than any other, then counts the number of parts that differ, then the more recent one: "the same
cluster for other input shapes" is an answer, "another cluster for the same shapes" is hardly one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

from habana_tf.cache import files
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.key import Key
from habana_tf.cache.listing import shards, start_of
from habana_tf.files import trust
from habana_tf.files.trust import Policy, Refused


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


def candidates(
    version: int, policy: Policy, known: Mapping[str, Candidate], first: Collection[str] = (), most: int = 1 << 30
) -> Iterator[Candidate]:
    """The keys of entries below the open directory `version`.

    Those in `known`, by digest, are not read again; of the others at most `most` are, those of clusters with a name in
    `first` before the rest.
    """
    names = {files.readable(name) for name in first}
    wanted = []
    for shard_name in shards(version):
        with suppress(OSError, Refused), trust.directory(shard_name, version, False, policy) as shard:
            for name in os.listdir(shard):
                digest = name.removesuffix(files.SUFFIX).rpartition("-")[2]
                if digest in known:
                    yield known[digest]
                elif name.endswith(files.SUFFIX):
                    wanted.append((name.rpartition("-")[0] not in names, shard_name, name))
    for _, shard_name, name in sorted(wanted)[:most]:
        with (
            suppress(OSError, Refused, EntryError),
            trust.directory(shard_name, version, False, policy) as shard,
            trust.regular_file(name, shard, policy=policy) as file,
        ):
            header = start_of(file).header
            yield Candidate.of(header.key, header["name"], header["created"])


def _digests(key: Key) -> tuple[tuple[str, bytes], ...]:
    return tuple((part.name, blake2b(part.encoded(), digest_size=8).digest()) for part in key.parts)
