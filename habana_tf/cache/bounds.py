"""Evicts the least recently used recipes, to keep the cache directory below its size.

Every version's directory counts (an older habana_tf's recipes age out like others), and in it recipes, notes of
failures, what lies in quarantine, and what killed processes left. The time of the last use is a file's modification
time. What lies in quarantine goes first.

Invariants: only names that this package gives are removed, never a directory; what no living process writes any more
is gone after the first sweep; an entry used in the last minute stays, so that a recipe is not evicted between its
making and its use, even if the limit is passed for so long; races with readers, writers and other sweeps are no errors,
and a file that another process removed is not counted.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from habana_tf.cache import files
from habana_tf.files import trust
from habana_tf.files.trust import Policy

QUARANTINE = "quarantine"
MINIMUM_AGE = files.TOUCH_AFTER
_LOW_WATER = 0.8
"""A sweep goes down to this part of the limit, so that the next store does not need another one."""


@dataclass(frozen=True)
class Swept:
    """removed, removed_bytes: what a sweep removed. kept, kept_bytes: what it left."""

    removed: int = 0
    removed_bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0


@dataclass(frozen=True)
class _Found:
    put_aside: bool
    temporary: bool
    abandoned: bool | None
    used: float
    bytes: int
    version: str
    folder: str
    name: str


def sweep(
    root: int,
    policy: Policy,
    keep_bytes: int | None = None,
    unused_for: float | None = None,
    minimum_age: float = MINIMUM_AGE,
) -> Swept:
    """Removes the least recently used until `keep_bytes` are left, and all that was not used for `unused_for` seconds.

    root: the open cache directory. Nothing younger than `minimum_age` seconds goes. Of temporary files those go that
    no living process writes, whatever is asked for; where that cannot be told none younger than a minute. Raises
    OSError or Refused only for the root itself.
    """
    now = time.time()
    found = sorted(_scan(root, policy), key=lambda f: (not f.put_aside, f.used, f.name))
    total, left = sum(f.bytes for f in found), len(found)
    removed = removed_bytes = 0
    for f in found:
        too_much = keep_bytes is not None and total > keep_bytes
        too_old = unused_for is not None and now - f.used > unused_for
        least = max(minimum_age, MINIMUM_AGE) if f.temporary else minimum_age
        young = not f.put_aside and now - f.used < least
        if not f.abandoned and (f.abandoned is False or young or not (too_much or too_old)):
            continue
        gone = _remove(root, policy, f)
        if gone is None:
            continue
        total, left = total - f.bytes, left - 1
        removed, removed_bytes = removed + gone, removed_bytes + gone * f.bytes
    return Swept(removed, removed_bytes, left, total)


class Bounds:
    """Says when a process that writes should sweep: at its first write, and then once per so many bytes.

    Other processes write too, so the count of this one alone is trusted for a sixteenth of the limit only.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._until_next = 0

    @property
    def low_water(self) -> int:
        """Bytes that a sweep leaves."""
        return int(self.limit * _LOW_WATER)

    def wrote(self, count: int) -> bool:
        """Notes a write; whether to look at the directory now."""
        with self._lock:
            self._until_next -= count
            if self._until_next > 0:
                return False
            self._until_next = max(self.limit // 64, 1)  # until `swept`, so that others do not look as well
            return True

    def swept(self, kept_bytes: int) -> None:
        """Notes how much is in the directory."""
        with self._lock:
            share = self.limit // 16
            self._until_next = max(min(self.limit - kept_bytes, share), self.limit // 64, 1)


def total_bytes(root: int, policy: Policy) -> int:
    """Bytes in the cache directory that count for its limit. Raises OSError for the root itself."""
    return sum(f.bytes for f in _scan(root, policy))


def _scan(root: int, policy: Policy) -> Iterator[_Found]:
    for version in os.listdir(root):
        if not re.fullmatch(r"v\d+", version):
            continue
        with suppress(OSError, trust.Refused), trust.directory(version, root, False, policy) as opened:
            for folder in os.listdir(opened):
                if re.fullmatch("[0-9a-f]{2}", folder) or folder == QUARANTINE:
                    with suppress(OSError, trust.Refused), trust.directory(folder, opened, False, policy) as shard:
                        yield from _scan_folder(shard, version, folder)


def _scan_folder(shard: int, version: str, folder: str) -> Iterator[_Found]:
    for name in os.listdir(shard):
        if not name.endswith(files.SUFFIX) and not name.startswith(files.TEMPORARY):
            continue
        with suppress(OSError):
            status = os.stat(name, dir_fd=shard, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                # A use in the future is a clock set back since: when it was is not known, so it was long ago.
                used = status.st_mtime if status.st_mtime < time.time() + files.TOUCH_AFTER else 0.0
                aside, temporary = folder == QUARANTINE, name.startswith(files.TEMPORARY)
                left = files.abandoned(shard, name) if temporary else None
                yield _Found(aside, temporary, left, used, status.st_size, version, folder, name)


def _remove(root: int, policy: Policy, found: _Found) -> int | None:
    """1 when removed, 0 when another process did, None when it is still there."""
    try:
        with (
            trust.directory(found.version, root, False, policy) as version,
            trust.directory(found.folder, version, False, policy) as shard,
        ):
            os.unlink(found.name, dir_fd=shard)
        return 1
    except trust.Refused:
        return None
    except OSError as error:
        return 0 if files.gone(error) else None
