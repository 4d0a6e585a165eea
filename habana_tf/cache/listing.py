"""What is in a cache directory, read from the beginnings of its files. Looking changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from habana_tf import trust
from habana_tf.cache import files
from habana_tf.cache.entry import EntryError, Start, decode_start
from habana_tf.cache.nearest import Candidate
from habana_tf.trust import Policy, Refused

_START = 8192
"""Bytes of a file that hold head and description of most entries."""


@dataclass(frozen=True)
class Listed:
    """An entry as a listing shows it: its header, or what is wrong with it. Times in seconds since the epoch."""

    path: str
    file_bytes: int
    last_used: float
    header: dict[str, Any] | None
    problem: str | None


def entries(version: int, path: str, policy: Policy) -> Iterator[Listed]:
    """Every entry below the open directory `version`, sorted by path. Only headers are read and verified.

    path: of that directory, for the paths in the answer. Raises OSError only for the directory itself.
    """
    for place, file, problem in _opened(version, path, policy):
        if file is None:
            yield Listed(place, 0, 0.0, None, problem)
            continue
        status = os.fstat(file)
        try:
            start = _start(file)
            if start.file_bytes != status.st_size:
                raise EntryError(f"{status.st_size} bytes long instead of {start.file_bytes}")
            yield Listed(place, status.st_size, status.st_mtime, start.header(), None)
        except (EntryError, OSError) as error:
            yield Listed(place, status.st_size, status.st_mtime, None, str(error))


def contents(version: int, path: str, policy: Policy) -> Iterator[tuple[str, bytes | None, str]]:
    """As `entries`, but (path, the whole file, "") and nothing verified; or (path, None, why it is not believed)."""
    for place, file, problem in _opened(version, path, policy):
        if file is None:
            yield place, None, problem
            continue
        try:
            yield place, trust.read_all(file), ""
        except OSError as error:
            yield place, None, str(error)


def candidates(
    version: int, policy: Policy, known: Mapping[str, Candidate], first: Collection[str] = (), most: int = 1 << 30
) -> Iterator[Candidate]:
    """The keys of entries below the open directory `version`.

    Those in `known`, by digest, are not read again; of the others at most `most` are, those of clusters with a name in
    `first` before the rest.
    """
    names = {files.readable(name) for name in first}
    wanted = []
    for shard_name in _shards(version):
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
            start = _start(file)
            yield Candidate.of(start.parsed_key(), start.head["name"], start.head["created"])


def _shards(version: int) -> list[str]:
    return sorted(name for name in os.listdir(version) if re.fullmatch("[0-9a-f]{2}", name))


def _opened(version: int, path: str, policy: Policy) -> Iterator[tuple[str, int | None, str]]:
    """(path, its descriptor or None, what is wrong with it then) of all entries; what vanishes is left out."""
    for shard_name in _shards(version):
        place = os.path.join(path, shard_name)
        try:
            with trust.directory(shard_name, version, False, policy) as shard:
                for name in sorted(name for name in os.listdir(shard) if name.endswith(files.SUFFIX)):
                    file_path = f"{place}/{name}"
                    try:
                        with trust.regular_file(name, shard, policy=policy) as file:
                            yield file_path, file, ""
                    except FileNotFoundError:
                        continue
                    except (Refused, OSError) as error:
                        yield file_path, None, str(error)
        except FileNotFoundError:
            continue
        except (Refused, OSError) as error:
            yield place, None, str(error)


def _start(file: int) -> Start:
    """The beginning of an entry. Raises EntryError or OSError."""
    return decode_start(os.pread(file, _START, 0), lambda at, count: os.pread(file, count, at))
