"""Exports recipes to one file and imports them on another machine.

    magic (8) | version (u32) | length of the index (u32) | BLAKE2b-256 of the index (32)
    index: JSON {"created": seconds since the epoch, "recipes": [{"name", "digest", "bytes", "blake2b"}, ...]}
    the entries' files, one after the other

A bundle holds machine code like the cache itself, so it is believed like an entry: a regular file of this user or
root that other users cannot write, or, with HABANA_SIM_CACHE_SIGNING_KEY, entries that carry its signature. What a
bundle says about names and sizes is never used as a path or before it is checked.

Invariants: importing executes nothing; an entry is imported whole and verified or not at all; what the cache has and
can read stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from habana_tf.cache.disk import Store
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.listing import Listed
from habana_tf.cache.reader import Options, Reader, ReadOnly, root_of
from habana_tf.files import trust

BUNDLE_VERSION = 1
_MAGIC = b"\x93RBUNDL\n"
_PREFIX = struct.Struct("<8sII32s")
_MOST_INDEX_BYTES = 64 << 20
_ATTEMPTS = 3


class BundleError(Exception):
    """The file is not an intact bundle."""


@dataclass(frozen=True)
class Exported:
    """recipes, file_bytes: what the bundle holds. problems: (path, why) of entries that were left out."""

    recipes: int
    file_bytes: int
    problems: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Imported:
    """added: recipes that are new. present: those that the cache had. problems: (name, why) of those left out."""

    added: int
    present: int
    problems: tuple[tuple[str, str], ...]


def export_bundle(
    file: str, path: str | None = None, select: Callable[[Listed], bool] = lambda listed: True
) -> Exported:
    """Writes the recipes of a cache directory (those for which `select` is true) to `file`, replacing it whole.

    Each is verified first; notes of failures stay behind. Where recipes are removed or replaced meanwhile it begins
    anew, twice. Raises what `directory` says, and BundleError when the directory never stands still.
    """
    reader = Reader.of(path)
    for _ in range(_ATTEMPTS - 1):
        with suppress(BundleError):
            return _exported(file, reader, select)
    return _exported(file, reader, select)


def _exported(file: str, reader: Reader, select: Callable[[Listed], bool]) -> Exported:
    problems = []
    rows: list[tuple[Listed, dict[str, Any]]] = []
    for listed in reader.listing():
        if listed.header is None:
            problems.append((listed.path, listed.problem or ""))
        elif "failure" not in listed.header and select(listed):
            try:
                data = reader.contents(listed)
                found = reader.decoded(data)
                rows.append(
                    (listed, {"name": found.name, "digest": found.digest, "bytes": len(data), "blake2b": _digest(data)})
                )
            except (EntryError, trust.Refused, OSError) as error:
                problems.append((listed.path, str(error)))
    index = json.dumps({"created": time.time(), "recipes": [row for _, row in rows]}).encode()
    with _replacing(file) as out:
        out.write(_PREFIX.pack(_MAGIC, BUNDLE_VERSION, len(index), hashlib.blake2b(index, digest_size=32).digest()))
        out.write(index)
        for listed, row in rows:
            try:
                data = reader.contents(listed)
            except (trust.Refused, OSError) as error:
                raise BundleError(f"{listed.path} was removed while it was exported: export again") from error
            if _digest(data) != row["blake2b"]:
                raise BundleError(f"{listed.path} was replaced while it was exported: export again")
            out.write(data)
        size = out.tell()
    return Exported(len(rows), size, tuple(problems))


def import_bundle(file: str, path: str | None = None) -> Imported:
    """Adds the recipes of a bundle to a cache directory, which is made if need be.

    Raises BundleError, Refused for a bundle that others could have written, OSError, NoPath, ReadOnly.
    """
    root = root_of(path)
    options = Options.from_settings()
    if options.mode == "ro":
        raise ReadOnly(f"HABANA_SIM_CACHE_MODE=ro: nothing is imported into {root}")
    store = Store(root, options=Options("rw", options.limit, options.owner, options.signing_key))
    added = present = 0
    problems = []
    for name, digest, data in read_bundle(file, store):
        try:
            entry = store.decoded(data)
            if entry.digest != digest:
                raise EntryError("it holds another key than the index says")
            if entry.failure is not None:
                raise EntryError("it notes a failure, which is no recipe")
            if store.read(digest) is not None:
                present += 1
            elif store.put(entry, data):
                added += 1
            else:
                problems.append((name, "it could not be written"))
        except (EntryError, trust.Refused) as error:
            problems.append((name, str(error)))
    return Imported(added, present, tuple(problems))


def read_bundle(file: str, reader: Reader) -> Iterator[tuple[str, str, bytes]]:
    """(name, key digest, file contents) of each recipe, its place in the bundle verified and no more."""
    folder, name = os.path.split(os.path.abspath(file))
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with (
            trust.regular_file(name, parent, policy=reader.policy) as descriptor,
            open(descriptor, "rb", closefd=False) as bundle,
        ):
            for row in _index(bundle, file, os.fstat(descriptor).st_size):
                if row["bytes"] > reader.options.limit:
                    raise BundleError(
                        f"{file}: the recipe {row['name']} has {row['bytes']} bytes, more than TF_RECIPE_CACHE_SIZE_MB"
                    )
                data = bundle.read(row["bytes"])
                if _digest(data) != row["blake2b"]:
                    raise BundleError(f"{file}: the recipe {row['name']} is damaged: copy the bundle again")
                yield str(row["name"]), str(row["digest"]), data
    finally:
        os.close(parent)


def _index(bundle: BinaryIO, file: str, size: int) -> Iterable[dict[str, Any]]:
    start = bundle.read(_PREFIX.size)
    if len(start) < _PREFIX.size:
        raise BundleError(f"{file} is not a bundle of recipes")
    magic, version, length, digest = _PREFIX.unpack(start)
    if magic != _MAGIC:
        raise BundleError(f"{file} is not a bundle of recipes")
    if version != BUNDLE_VERSION:
        raise BundleError(f"{file} is a bundle of version {version}, this habana_tf reads version {BUNDLE_VERSION}")
    text = bundle.read(min(length, _MOST_INDEX_BYTES))
    if len(text) != length or hashlib.blake2b(text, digest_size=32).digest() != digest:
        raise BundleError(f"{file}: the index is damaged: copy the bundle again")
    try:
        rows = list(json.loads(text)["recipes"])
        sizes = [row["bytes"] for row in rows if row["name"] and row["digest"] and row["blake2b"]]
        whole = len(sizes) == len(rows) and all(isinstance(n, int) and n >= 0 for n in sizes)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(f"{file}: the index is not understood: {error!r}") from error
    if not whole or _PREFIX.size + length + sum(sizes) != size:
        raise BundleError(f"{file} has another length than its index says: copy the bundle again")
    return rows


@contextmanager
def _replacing(file: str) -> Iterator[BinaryIO]:
    """A new file that takes the place of `file` when it is whole. Never writable for others."""
    temporary = f"{file}.tmp-{os.getpid()}-{os.urandom(8).hex()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with open(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fsync(descriptor)
        os.rename(temporary, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
