"""Reads a cache directory: its settings, its files, and which of them are trusted.

    <root>/v4/<kk>/<name>-<sha256>.recipe     kk = first two digits of the key's SHA-256
    <root>/v4/locks                           one byte per key, locked while a recipe is compiled
    <root>/v4/quarantine/                     the last damaged entries, for whoever wants to know why
    <root>/v4/journal.jsonl                   what happened (`journal`)

Nothing stays open between calls, so the directory may be deleted at any time and comes back.

Invariants: an entry is believed only after `trust` accepted the file, `entry.decode` its contents and, where one is
asked for, `signature` its signature; nothing here changes anything on disk but what `create` says.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from habana_tf import settings
from habana_tf.cache import entry as entry_format
from habana_tf.cache import files
from habana_tf.cache.entry import Entry
from habana_tf.cache.entry_head import FORMAT_VERSION
from habana_tf.cache.listing import Listed, entries
from habana_tf.files import trust
from habana_tf.files.trust import Policy, Refused

if TYPE_CHECKING:
    from habana_tf.cache.signature import SigningKey

VERSION = f"v{FORMAT_VERSION}"
_ADVICE = " by TF_RECIPE_CACHE_PATH, or set HABANA_SIM_CACHE_OWNER={user} if that user may run programs as you"


class NoDirectory(Exception):
    """There is no cache directory."""


class NoPath(NoDirectory):
    """Nobody said where the cache directory is."""


class ReadOnly(Exception):
    """HABANA_SIM_CACHE_MODE=ro, and a change was asked for."""


def root_of(path: str | None) -> str:
    """`path`, or TF_RECIPE_CACHE_PATH where it is None. Raises NoPath or SettingError."""
    root = path or settings.TF_RECIPE_CACHE_PATH.get()
    if root is None:
        raise NoPath("no cache directory: set TF_RECIPE_CACHE_PATH")
    return root


class Options(NamedTuple):
    """How a directory is used: see the settings of the same names. limit: bytes. minimum_age: seconds."""

    mode: str = "rw"
    limit: int = 1024 << 20
    owner: int | None = None
    signing_key: str | None = None
    minimum_age: float = files.TOUCH_AFTER

    @classmethod
    def from_settings(cls) -> Options:
        """As the environment says now. Raises SettingError."""
        return cls(
            settings.HABANA_SIM_CACHE_MODE.get(),
            settings.TF_RECIPE_CACHE_SIZE_MB.get() << 20,
            settings.HABANA_SIM_CACHE_OWNER.get(),
            settings.HABANA_SIM_CACHE_SIGNING_KEY.get(),
        )

    @property
    def writable(self) -> bool:
        """Whether anything on disk may be changed."""
        return self.mode in ("rw", "refresh")


def _absolute(path: str) -> str:
    """The path as it is where the working directory was deleted: nothing is there then, which is no reason to stop."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path


class Reader:
    """The cache directory `root`. Every method may be called from any thread."""

    def __init__(self, root: str, options: Options | None = None) -> None:
        self.path = root
        self.root = _absolute(root)
        self.options = options or Options()
        self.policy = Policy(self.options.owner, self.options.signing_key is not None, _ADVICE)
        self._key: SigningKey | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, path: str | None = None) -> Reader:
        """The reader of a directory that is there, TF_RECIPE_CACHE_PATH by default, used as the settings say; mode off
        is for programs that compile. Raises NoDirectory or SettingError."""
        root = root_of(path)
        if not os.path.isdir(root):
            raise NoDirectory(f"{root} is not a directory: nothing was cached there")
        options = Options.from_settings()
        return cls(root, options._replace(mode="rw") if options.mode == "off" else options)

    def listing(self, heads_only: bool = False) -> list[Listed]:
        """Every entry, sorted by path. Only headers are read and verified, or of them only the heads; signatures are
        not. Raises OSError or trust.Refused when the directory itself cannot be read; a missing one is empty."""
        try:
            with self.version(create=False) as version:
                return list(entries(version, os.path.join(self.root, VERSION), self.policy, heads_only))
        except FileNotFoundError:
            return []

    def inspect(self, listed: Listed) -> Entry:
        """The whole entry of a listing, verified; nothing is counted, touched or moved. Raises EntryError,
        trust.Refused or OSError."""
        return self.decoded(self.contents(listed))

    def contents(self, listed: Listed) -> bytes:
        """The file of a listing, not verified. Raises trust.Refused or OSError."""
        shard_name, name = os.path.split(os.path.relpath(listed.path, os.path.join(self.root, VERSION)))
        with (
            self.version(create=False) as version,
            trust.directory(shard_name, version, False, self.policy) as shard,
        ):
            return files.contents(name, shard, self.policy, self.options.limit)

    def encoded(self, entry: Entry) -> bytes:
        """File contents of an entry, signed where this cache asks for it. Raises Refused or OSError without key."""
        key = self._signing_key()
        return entry_format.encode(entry, key.sign if key is not None else None)

    def decoded(self, data: bytes) -> Entry:
        """The entry in file contents, its signature verified where this cache asks for it. Raises EntryError,
        Refused or OSError."""
        key = self._signing_key()
        return entry_format.decode(data) if key is None else entry_format.decode(data, key.check)

    @contextmanager
    def opened(self, create: bool) -> Iterator[int]:
        """The root's descriptor. Raises OSError or Refused."""
        with trust.root_directory(self.root, create, self.policy) as root:
            yield root

    @contextmanager
    def version(self, create: bool) -> Iterator[int]:
        """The descriptor of this format's directory. Raises OSError or Refused."""
        with self.opened(create) as root, trust.directory(VERSION, root, create, self.policy) as version:
            yield version

    @contextmanager
    def shard(self, digest: str, create: bool) -> Iterator[int]:
        """The descriptor of the directory for a key. Raises OSError or Refused."""
        with self.version(create) as version, trust.directory(digest[:2], version, create, self.policy) as shard:
            yield shard

    def _signing_key(self) -> SigningKey | None:
        """Read at first use; one that cannot be used is tried again next time."""
        path = self.options.signing_key
        if path is None:
            return None
        from habana_tf.cache.signature import SigningKey

        with self._lock:
            if self._key is None:
                try:
                    self._key = SigningKey.load(path, self.options.owner)
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise Refused(f"HABANA_SIM_CACHE_SIGNING_KEY={path}: {reason}", "key") from error
            return self._key
