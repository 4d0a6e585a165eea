"""Exports recipes to one file and imports them on another machine.

    magic (8) | version (u32) | number of recipes (u32)
    the entries' files, one after the other

An entry says itself how long it is, and has a digest over each of its bytes. A bundle holds machine code like the cache
itself, so it is believed like an entry: a regular file of this user or root that other users cannot write, or, with
HABANA_SIM_CACHE_SIGNING_KEY, entries that carry its signature. What a bundle says about names and sizes is never used
as a path or before it is checked.

Invariants: importing executes nothing; an entry is imported whole and verified or not at all; what the cache has and
can read stays as it is.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from habana_tf.cache.disk import Store
from habana_tf.cache.entry import decode_start
from habana_tf.cache.entry_head import PREFIX_BYTES, EntryError
from habana_tf.cache.listing import Listed
from habana_tf.cache.reader import Options, Reader, ReadOnly, root_of
from habana_tf.files import trust

BUNDLE_VERSION = 2
_MAGIC = b"\x93RBUNDL\n"
_PREFIX = struct.Struct("<8sII")


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

    Each is verified first; notes of failures stay behind, and so does what is removed meanwhile. Raises what
    `directory` says.
    """
    reader = Reader.of(path)
    problems, recipes = [], 0
    with _replacing(file) as out:
        out.write(bytes(_PREFIX.size))
        for listed in reader.listing():
            if listed.header is None:
                problems.append((listed.path, listed.problem or ""))
            elif "failure" not in listed.header and select(listed):
                try:
                    data = reader.contents(listed)
                    reader.decoded(data)
                except FileNotFoundError:
                    continue
                except (EntryError, trust.Refused, OSError) as error:
                    problems.append((listed.path, str(error)))
                    continue
                out.write(data)
                recipes += 1
        size = out.tell()
        out.seek(0)
        out.write(_PREFIX.pack(_MAGIC, BUNDLE_VERSION, recipes))
    return Exported(recipes, size, tuple(problems))


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
    for name, data in read_bundle(file, store):
        try:
            entry = store.decoded(data)
        except EntryError as error:
            raise _damaged(file, error) from error
        except trust.Refused as error:
            problems.append((name, str(error)))
            continue
        if entry.failure is not None:
            problems.append((name, "it notes a failure, which is no recipe"))
        elif store.read(entry.digest) is not None:
            present += 1
        elif store.put(entry, data):
            added += 1
        else:
            problems.append((name, "it could not be written"))
    return Imported(added, present, tuple(problems))


def read_bundle(file: str, reader: Reader) -> Iterator[tuple[str, bytes]]:
    """(name, file contents) of each recipe, only the heads verified. Raises BundleError, Refused or OSError."""
    folder, name = os.path.split(os.path.abspath(file))
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with (
            trust.regular_file(name, parent, policy=reader.policy) as descriptor,
            open(descriptor, "rb", closefd=False) as bundle,
        ):
            start = bundle.read(_PREFIX.size)
            magic, version, recipes = _PREFIX.unpack(start) if len(start) == _PREFIX.size else (b"", 0, 0)
            if magic != _MAGIC:
                raise BundleError(f"{file} is not a bundle of recipes")
            if version != BUNDLE_VERSION:
                raise BundleError(f"{file} is a bundle of version {version}, this habana_tf reads {BUNDLE_VERSION}")
            for _ in range(recipes):
                yield _recipe(bundle, file, reader.options.limit)
            if bundle.read(1):
                raise BundleError(f"{file} holds more recipes than it says: copy the bundle again")
    finally:
        os.close(parent)


def _recipe(bundle: BinaryIO, file: str, most: int) -> tuple[str, bytes]:
    """The name and contents of the recipe that begins here. most: bytes that it may have."""
    at = bundle.tell()
    try:
        start = decode_start(bundle.read(PREFIX_BYTES), lambda _, count: bundle.read(count), head_only=True)
    except EntryError as error:
        raise _damaged(file, error) from error
    name = str(start.header["name"])
    if start.file_bytes > most:
        raise BundleError(
            f"{file}: the recipe {name} has {start.file_bytes} bytes, more than TF_RECIPE_CACHE_SIZE_MB allows"
        )
    bundle.seek(at)
    return name, bundle.read(start.file_bytes)


def _damaged(file: str, error: EntryError) -> BundleError:
    return BundleError(f"{file}: a recipe in it cannot be read ({error}): copy the bundle again, or make it anew")


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
