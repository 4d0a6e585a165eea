"""Operations on a whole cache directory: list, verify, prune, clear, check its health.

Every function takes the directory's path; None means TF_RECIPE_CACHE_PATH. None of them executes a recipe, and looking
(`entries`, `verify`, `health`) changes nothing. Unlike the cache at work these raise: `NoDirectory` when there is no
directory to work on, `ReadOnly` when HABANA_SIM_CACHE_MODE=ro forbids a change, trust.Refused when the directory is
not to be believed, OSError for trouble with the disk.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from habana_tf.cache import journal
from habana_tf.cache.bounds import Swept, sweep, total_bytes
from habana_tf.cache.disk import Store
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.listing import Listed
from habana_tf.cache.lock import LockUnavailable
from habana_tf.cache.reader import VERSION, Reader, ReadOnly
from habana_tf.files import trust

_NO_KEY = "0" * 64
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph"})


def entries(path: str | None = None) -> list[Listed]:
    """Every entry with its header, sorted by path; only the beginnings of files are read and verified."""
    return Reader.of(path).listing()


@dataclass(frozen=True)
class Verified:
    """good: entries that are intact and, where asked for, signed. file_bytes: of all that were read.
    problems: (path, what is wrong) of the others. seconds: reading and verifying took."""

    good: int
    file_bytes: int
    problems: tuple[tuple[str, str], ...]
    seconds: float


def verify(path: str | None = None) -> Verified:
    """Reads every entry whole and verifies it as a load would."""
    reader = Reader.of(path)
    start = time.perf_counter()
    good = total = 0
    problems = []
    for row in reader.listing(heads_only=True):
        try:
            if row.problem is not None:
                raise EntryError(row.problem)
            data = reader.contents(row)
            if not row.path.endswith(f"-{reader.decoded(data).digest}.recipe"):
                raise EntryError("it holds another key than its name says")
            good += 1
            total += len(data)
        except FileNotFoundError:
            continue
        except (EntryError, trust.Refused, OSError) as error:
            problems.append((row.path, str(error)))
    return Verified(good, total, tuple(problems), time.perf_counter() - start)


def prune(path: str | None = None, *, max_bytes: int | None = None, unused_for: float | None = None) -> Swept:
    """Removes what was not used for `unused_for` seconds and then the least recently used down to `max_bytes`.

    Entries used in the last minute stay. Both None: nothing is removed.
    """
    reader = _changeable(path)
    with reader.opened(create=False) as root:
        return sweep(root, reader.policy, max_bytes, unused_for)


def clear(path: str | None = None) -> Swept:
    """Removes all recipes of all versions, what lies in quarantine, and the journal. The directory itself stays."""
    reader = _changeable(path)
    with reader.opened(create=False) as root:
        swept = sweep(root, reader.policy, 0, minimum_age=0.0)
    with suppress(FileNotFoundError), reader.version(create=False) as version:
        for name in journal.NAMES:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=version)
    return swept


@dataclass(frozen=True)
class Health:
    """What may matter when a cache does not do what it should.

    refused: why nothing here is believed, or None. unusable: (path, why) of directories and recipes below that are not
    used. writable: whether this user may write there. used_bytes,
    limit_bytes: against TF_RECIPE_CACHE_SIZE_MB. free_bytes: on the disk. file_system: its type, "" if unknown;
    network: whether other machines may write to it. locks: None when they work, or why not. versions: the format
    versions with a directory here; this habana_tf's is `reader.VERSION`.
    """

    root: str
    refused: str | None
    unusable: tuple[tuple[str, str], ...]
    writable: bool
    used_bytes: int
    limit_bytes: int
    free_bytes: int
    file_system: str
    network: bool
    locks: str | None
    versions: tuple[str, ...]


def health(path: str | None = None) -> Health:
    """The state of a directory. Nothing in it changes but that a lock file may appear. Raises NoDirectory."""
    reader = Reader.of(path)
    refused = locks = None
    used = 0
    unusable: tuple[tuple[str, str], ...] = ()
    versions: tuple[str, ...] = ()
    try:
        with reader.opened(create=False) as root:
            versions = tuple(sorted(name for name in os.listdir(root) if name[:1] == "v" and name[1:].isdigit()))
            used = total_bytes(root, reader.policy)
        listed = reader.listing(heads_only=True)
        unusable = tuple((row.path, row.problem or "") for row in listed if row.header is None)
    except (trust.Refused, OSError) as error:
        refused = str(error)
    writable = reader.options.writable and os.access(reader.root, os.W_OK | os.X_OK)
    if writable and refused is None and VERSION in versions:
        try:
            with Store(reader.root, options=reader.options).locked(_NO_KEY, 0.0):
                pass
        except (LockUnavailable, trust.Refused, OSError) as error:
            locks = str(error)
    space = os.statvfs(reader.root)
    kind = file_system(reader.root)
    return Health(
        reader.root, refused, unusable, writable, used, reader.options.limit, space.f_bavail * space.f_frsize, kind,
        kind in _NETWORK, locks, versions,
    )  # fmt: skip


def file_system(path: str) -> str:
    """The type of the file system that holds `path`, such as "ext4" or "nfs4"; "" where the system does not tell."""
    wanted = os.stat(path).st_dev
    numbers = f"{os.major(wanted)}:{os.minor(wanted)}"
    with suppress(OSError, IndexError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            if line.split()[2] == numbers:
                return line.partition(" - ")[2].split()[0]
    return ""


def _changeable(path: str | None) -> Reader:
    reader = Reader.of(path)
    if not reader.options.writable:
        raise ReadOnly(f"HABANA_SIM_CACHE_MODE={reader.options.mode}: nothing in {reader.root} is changed")
    return reader
