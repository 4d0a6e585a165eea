"""Lists a cache directory from the beginnings of its files, and changes nothing in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from habana_tf.cache import files
from habana_tf.cache.entry import Start, decode_start
from habana_tf.cache.entry_head import EntryError, Header
from habana_tf.files import trust
from habana_tf.files.trust import Policy, Refused

_HEX = frozenset("0123456789abcdef")
_START = 8192
"""Bytes of a file that hold head and description of most entries."""


class Listed(NamedTuple):
    """An entry as a listing shows it: its header, or what is wrong with it. Times in seconds since the epoch."""

    path: str
    file_bytes: int
    last_used: float
    header: Header | None
    problem: str | None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON data. Raises EntryError for a key that is not understood."""
        return {**self._asdict(), "header": None if self.header is None else dict(self.header)}


def entries(version: int, path: str, policy: Policy, heads_only: bool = False) -> Iterator[Listed]:
    """Every entry below the open directory `version`, sorted by path. Only headers are read and verified.

    path: of that directory, for the paths in the answer. heads_only: of headers only the heads, a third of the time.
    Raises OSError only for the directory itself.
    """
    for place, opened, problem in _opened(version, path, policy):
        if opened is None:
            yield Listed(place, 0, 0.0, None, problem)
            continue
        file, status = opened
        try:
            start = start_of(file, heads_only)
            if start.file_bytes != status.st_size:
                raise EntryError(f"{status.st_size} bytes long instead of {start.file_bytes}")
            if not heads_only:
                start.header.check_description()
            yield Listed(place, status.st_size, status.st_mtime, start.header, None)
        except (EntryError, OSError) as error:
            yield Listed(place, status.st_size, status.st_mtime, None, str(error))


def shards(version: int) -> list[str]:
    """The names of the directories that hold entries, sorted."""
    return sorted(name for name in os.listdir(version) if len(name) == 2 and _HEX.issuperset(name))


def _opened(version: int, path: str, policy: Policy) -> Iterator[tuple[str, tuple[int, os.stat_result] | None, str]]:
    """(path, its descriptor and status or None, what is wrong with it then) of all entries; what vanishes is left
    out."""
    for shard_name in shards(version):
        place = os.path.join(path, shard_name)
        try:
            with trust.directory(shard_name, version, False, policy) as shard:
                for name in sorted(name for name in os.listdir(shard) if name.endswith(files.SUFFIX)):
                    file_path = f"{place}/{name}"
                    try:
                        opened = trust.opened_to_read(name, shard, policy)
                    except FileNotFoundError:
                        continue
                    except (Refused, OSError) as error:
                        yield file_path, None, str(error)
                        continue
                    try:
                        yield file_path, opened, ""
                    finally:
                        os.close(opened[0])
        except FileNotFoundError:
            continue
        except (Refused, OSError) as error:
            yield place, None, str(error)


def start_of(file: int, head_only: bool = False) -> Start:
    """The beginning of an entry, or its head alone. Raises EntryError or OSError."""
    return decode_start(os.pread(file, _START, 0), lambda at, count: os.pread(file, count, at), head_only)
