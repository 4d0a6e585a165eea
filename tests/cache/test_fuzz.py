"""Readers of files get any bytes at all: what is not intact is refused with their own exception, and with no other.

    python -m tests.cache.test_fuzz SECONDS

fuzzes for that long instead of the short run of the test suite.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from habana_tf.cache import journal
from habana_tf.cache.bundle import BundleError, read_bundle
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, decode, decode_start, encode
from habana_tf.cache.entry_head import PREFIX_BYTES, EntryError, head_end
from habana_tf.cache.nearest import Candidate, candidates
from habana_tf.cache.reader import VERSION, Options
from habana_tf.cli.output import moment
from habana_tf.reports.units import duration
from tests.cache.conftest import _make_entry

ORIGINAL = _make_entry()
GOOD = encode(ORIGINAL)
END = head_end(GOOD)

_nobody_writes = st.sampled_from([float("nan"), float("inf"), -1, 10**400, "\ud800", "\x1b[2J"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | _nobody_writes,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def _edited(draw: st.DrawFn) -> bytes:
    """The good entry with some of its bytes replaced, inserted, removed or repeated."""
    data = bytearray(GOOD)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 1, 1, 4, 32, 1000]))
        data[at : at + length] = draw(st.binary(max_size=40) | st.just(bytes(data[at : at + length]) * 2))
    return bytes(data)


@st.composite
def _forged(draw: st.DrawFn) -> bytes:
    """The good entry with values in its head replaced, under a digest that fits."""
    head: dict[str, Any] = json.loads(GOOD[PREFIX_BYTES:END])
    for _ in range(draw(st.integers(1, 3))):
        place: Any = head
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and draw(st.booleans()):
                place = place[key]
                continue
            if draw(st.booleans()):
                place[key] = draw(_json)
            else:
                del place[key]
            break
    return _beginning(head) + draw(st.just(GOOD[END:]) | st.binary(max_size=200))


@st.composite
def _rekeyed(draw: st.DrawFn) -> bytes:
    """The good entry with another key and all digests that fit it."""
    parts = st.lists(st.tuples(st.text(max_size=4), _json | _nobody_writes), min_size=1, max_size=3)
    key = json.dumps(draw(_json | parts)).encode()
    head: dict[str, Any] = json.loads(GOOD[PREFIX_BYTES:END])
    row = head["parts"][0]
    rest = GOOD[END + row[2] :]
    head["digest"] = sha256(key).hexdigest()
    head["parts"][0] = [row[0], len(key), len(key), blake2b(key, digest_size=32).hexdigest()]
    return _beginning(head) + key + rest


def _beginning(head: dict[str, Any]) -> bytes:
    """The first bytes of a file with this head: what every reader takes for whole."""
    text = json.dumps(head).encode()
    return GOOD[:12] + struct.pack("<I32s", len(text), blake2b(text, digest_size=32).digest()) + text


FILES = st.binary(max_size=300) | _edited() | _forged() | _rekeyed()
_LOOK = settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), database=None)


def entries(data: bytes) -> None:
    """Decodes file contents every way there is."""
    readers: tuple[Callable[[bytes], object], ...] = (
        decode, decode_start, lambda d: dict(decode_start(d).header), lambda d: decode_start(d).header.key,
        lambda d: dict(decode_start(d, head_only=True).header),
    )  # fmt: skip
    for read in readers:
        try:
            found = read(data)
        except EntryError:
            continue
        if isinstance(found, Entry):
            # Whatever a forger says about it: its sections are those of the original, or they are not decoded.
            assert list(found.sections.values()) == list(ORIGINAL.sections.values())[: len(found.sections)]
            with contextlib.suppress(EntryError):
                print(dict(found.header), file=io.TextIOWrapper(io.BytesIO(), "utf-8"))
                Candidate.of(found.header.key, found.name, found.created)
                moment(found.created), duration(found.compile_seconds)


def files_on_disk(folder: Path, data: bytes) -> None:
    """The same through a store, a bundle and a journal: what is wrong is a miss, a BundleError, a skipped line."""
    store = Store(str(folder / "recipes"))
    assert store.write(ORIGINAL)
    path = next((folder / "recipes").rglob("*.recipe"))
    path.write_bytes(data)
    store.listing()
    with store.version(create=False) as version:
        list(candidates(version, store.policy, {}))
    key = folder / "key"
    key.write_bytes(b"sixteen bytes or more")
    key.chmod(0o600)
    signed = Store(store.root, options=Options(mode="ro", signing_key=str(key)))
    assert signed.read(ORIGINAL.digest) is None, "nobody signed this"
    found = store.read(ORIGINAL.digest)
    assert found is None or found.digest == ORIGINAL.digest
    bundle = folder / "bundle"
    bundle.write_bytes(data)
    bundle.chmod(0o600)
    with contextlib.suppress(BundleError):
        list(read_bundle(str(bundle), store))
    lines = folder / "recipes" / VERSION / "journal.jsonl"
    lines.write_bytes(data)
    lines.chmod(0o600)
    for event in journal.read(store):
        moment(event.time)


def test_a_forgery_without_a_change_is_the_entry() -> None:
    """Otherwise forgeries were refused for what they begin with, and tried nothing."""
    head = json.loads(GOOD[PREFIX_BYTES:END])
    found = decode(_beginning(head) + GOOD[END:])
    assert found.digest == ORIGINAL.digest and dict(found.sections) == dict(ORIGINAL.sections)


@_LOOK
@given(FILES)
def test_any_bytes_are_an_entry_or_an_entry_error(data: bytes) -> None:
    entries(data)


@settings(_LOOK, max_examples=50)
@given(FILES)
def test_any_bytes_in_a_file_are_a_miss(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files_on_disk(Path(folder), data)


def main(seconds: float) -> None:
    """Fuzzes; prints the number of inputs."""
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:

        @seed(int(time.time() * 1000))
        @settings(_LOOK, max_examples=2000)
        @given(FILES)
        def run(data: bytes) -> None:
            nonlocal count
            count += 1
            entries(data)

        run()
    print(f"{count} inputs in {time.monotonic() - began:.0f} s, no crash")


if __name__ == "__main__":
    main(float(sys.argv[1]))
