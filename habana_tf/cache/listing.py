"""What is in a cache directory, read from the beginnings of its files. Looking changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from habana_tf import trust
from habana_tf.cache import entry as entry_format
from habana_tf.cache import files
from habana_tf.cache.entry import EntryError
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
    for shard_name in sorted(os.listdir(version)):
        if not re.fullmatch("[0-9a-f]{2}", shard_name):
            continue
        place = os.path.join(path, shard_name)
        try:
            with trust.directory(shard_name, version, False, policy) as shard:
                for name in sorted(name for name in os.listdir(shard) if name.endswith(files.SUFFIX)):
                    yield from _one(shard, os.path.join(place, name), policy)
        except FileNotFoundError:
            continue  # deleted at this moment
        except (Refused, OSError) as error:
            yield Listed(place, 0, 0.0, None, str(error))


def candidates(version: int, policy: Policy, known: Mapping[str, Candidate]) -> Iterator[Candidate]:
    """The key of every entry below the open directory `version`; those in `known`, by digest, are not read again."""
    for shard_name in os.listdir(version):
        if not re.fullmatch("[0-9a-f]{2}", shard_name):
            continue
        with suppress(OSError, Refused), trust.directory(shard_name, version, False, policy) as shard:
            for name in os.listdir(shard):
                digest = name.removesuffix(files.SUFFIX).rpartition("-")[2]
                if digest in known:
                    yield known[digest]
                elif name.endswith(files.SUFFIX):
                    with (
                        suppress(OSError, Refused, EntryError),
                        trust.regular_file(name, shard, policy=policy) as file,
                    ):
                        start = _start(file)
                        key, head = entry_format.decode_key(start), entry_format.decode_head(start)
                        yield Candidate.of(key, head["name"], head["created"])


def _start(file: int) -> bytes:
    """The beginning of an entry, up to the end of its description. Raises EntryError."""
    start = os.pread(file, _START, 0)
    for end in (entry_format.head_end, entry_format.description_end):
        if (more := end(start) - len(start)) > 0:
            start += os.pread(file, more, len(start))
    return start


def _one(shard: int, path: str, policy: Policy) -> Iterator[Listed]:
    status = None
    try:
        with trust.regular_file(os.path.basename(path), shard, policy=policy) as file:
            status = os.fstat(file)
            header = entry_format.decode_header(_start(file), status.st_size)
        yield Listed(path, status.st_size, status.st_mtime, header, None)
    except FileNotFoundError:
        return  # deleted at this moment
    except (EntryError, Refused, OSError) as error:
        size, used = (status.st_size, status.st_mtime) if status else (0, 0.0)
        yield Listed(path, size, used, None, str(error))
