"""What is in a cache directory, read from the beginnings of its files. Looking changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from habana_tf import trust
from habana_tf.cache import files
from habana_tf.cache.entry import EntryError, Header, Start, decode_start
from habana_tf.trust import Policy, Refused

_START = 8192
"""Bytes of a file that hold head and description of most entries."""


@dataclass(frozen=True)
class Listed:
    """An entry as a listing shows it: its header, or what is wrong with it. Times in seconds since the epoch."""

    path: str
    file_bytes: int
    last_used: float
    header: Header | None
    problem: str | None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON data. Raises EntryError for a key that is not understood."""
        return {**vars(self), "header": None if self.header is None else dict(self.header)}


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
            start = start_of(file)
            if start.file_bytes != status.st_size:
                raise EntryError(f"{status.st_size} bytes long instead of {start.file_bytes}")
            start.header.check_description()
            yield Listed(place, status.st_size, status.st_mtime, start.header, None)
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


def shards(version: int) -> list[str]:
    """The names of the directories that hold entries, sorted."""
    return sorted(name for name in os.listdir(version) if re.fullmatch("[0-9a-f]{2}", name))


def _opened(version: int, path: str, policy: Policy) -> Iterator[tuple[str, int | None, str]]:
    """(path, its descriptor or None, what is wrong with it then) of all entries; what vanishes is left out."""
    for shard_name in shards(version):
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


def start_of(file: int) -> Start:
    """The beginning of an entry. Raises EntryError or OSError."""
    return decode_start(os.pread(file, _START, 0), lambda at, count: os.pread(file, count, at))
