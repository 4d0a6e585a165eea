"""Eviction removes what was not used for longest, what it must and no more, and minds nobody's races."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from habana_tf.cache import bounds, files, journal, lock
from habana_tf.cache.bounds import Bounds, Swept, sweep
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, encode
from habana_tf.cache.reader import VERSION, Options
from habana_tf.files import trust
from tests.child import environment

DAY = 86400.0


@pytest.fixture
def filled(root: Path, make_entry: Callable[..., Entry]) -> list[Path]:
    """Ten entries; the n-th was used n days ago."""
    store = Store(str(root))
    paths = []
    for seed in range(10):
        entry = make_entry(seed=seed)
        assert store.write(entry)
        (path,) = root.rglob(f"*{entry.digest}.recipe")
        os.utime(path, (time.time() - seed * DAY,) * 2)
        paths.append(path)
    return paths


@pytest.fixture
def opened(root: Path) -> Iterator[int]:
    root.mkdir(parents=True, exist_ok=True)
    with trust.root_directory(str(root), create=False) as descriptor:
        yield descriptor


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def test_the_least_recently_used_go(filled: list[Path], opened: int) -> None:
    total, keep = _size(filled), _size(filled[:4])
    swept = sweep(opened, trust.OWN, keep)
    assert [path.exists() for path in filled] == [True] * 4 + [False] * 6
    assert swept == Swept(6, total - keep, 4, keep)
    assert sweep(opened, trust.OWN, keep) == Swept(0, 0, 4, keep)


def test_what_was_not_used_for_long_goes(filled: list[Path], opened: int) -> None:
    assert sweep(opened, trust.OWN, unused_for=4.5 * DAY).removed == 5
    assert [path.exists() for path in filled] == [True] * 5 + [False] * 5


def test_without_a_bound_nothing_goes(filled: list[Path], opened: int) -> None:
    assert sweep(opened, trust.OWN) == Swept(0, 0, 10, _size(filled))


def test_what_was_just_used_stays(filled: list[Path], opened: int) -> None:
    assert sweep(opened, trust.OWN, 0).removed == 9
    assert filled[0].exists()
    assert sweep(opened, trust.OWN, 0, minimum_age=0.0).removed == 1


def test_a_use_in_the_future_was_long_ago(filled: list[Path], opened: int) -> None:
    """As after a clock was set back: what is used now must not go for what nobody uses any more."""
    for path in filled[5:]:
        os.utime(path, (time.time() + 365 * DAY,) * 2)
    assert sweep(opened, trust.OWN, _size(filled[:5])).removed == 5
    assert [path.exists() for path in filled] == [True] * 5 + [False] * 5
    os.utime(filled[3], (time.time() + 365 * DAY,) * 2)
    assert sweep(opened, trust.OWN, unused_for=30 * DAY).removed == 1 and not filled[3].exists()


def test_quarantine_goes_first_and_counts(filled: list[Path], opened: int, root: Path) -> None:
    put_aside = root / VERSION / "quarantine" / filled[0].name
    put_aside.parent.mkdir(mode=0o700)
    filled[0].rename(put_aside)
    swept = sweep(opened, trust.OWN, _size(filled[1:]))
    assert (swept.removed, put_aside.exists()) == (1, False)


WRITER = """
import sys
from habana_tf.files import trust
from habana_tf.cache import files
write_all = files.write_all
def half(file, data):
    write_all(file, data[: len(data) // 2])
    print("half", flush=True)
    sys.stdin.read()  # until it is killed
files.write_all = half
with trust.root_directory(sys.argv[1], create=False) as shard:
    files.write_atomically(shard, "x.recipe", bytes(1 << 20), trust.OWN)
"""


@pytest.fixture
def writer(filled: list[Path]) -> Iterator[subprocess.Popen[str]]:
    """A process that has written half of a file, beside the youngest entry."""
    words = [sys.executable, "-c", WRITER, str(filled[0].parent)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "half\n"
        yield process
        process.kill()


@pytest.mark.parametrize("age", [2 * files.UNLOCKED_FOR, 2 * DAY])
def test_what_a_living_process_writes_stays_and_is_gone_after_it(
    filled: list[Path], opened: int, writer: subprocess.Popen[str], age: float
) -> None:
    """However old it is, for it may be stopped; and whatever its age it counts, and is gone when its process was
    killed, though nothing else has to go."""
    (written,) = filled[0].parent.glob(f"{files.TEMPORARY}*")
    os.utime(written, (time.time() - age,) * 2)
    assert bounds.total_bytes(opened, trust.OWN) == _size(filled) + (1 << 19)
    assert sweep(opened, trust.OWN, 0).kept == 2 and written.exists() and filled[0].exists()
    files.remove_stale_temporaries(_shard(filled[0]))
    assert written.exists()
    writer.kill()
    writer.wait()
    assert sweep(opened, trust.OWN) == Swept(1, 1 << 19, 1, _size(filled[:1])) and not written.exists()


def test_the_next_write_removes_what_a_killed_process_left(
    filled: list[Path], opened: int, writer: subprocess.Popen[str], root: Path, make_entry: Callable[..., Entry]
) -> None:
    """Wherever it is: its key need not be made again."""
    writer.kill()
    writer.wait()
    (left,) = root.rglob(f"{files.TEMPORARY}*")
    os.utime(left, (time.time() - 2 * files.UNLOCKED_FOR,) * 2)
    assert Store(str(root)).write(make_entry(seed=99))
    assert not list(root.rglob(f"{files.TEMPORARY}*"))


def test_a_file_whose_writer_has_not_locked_it_yet_stays(filled: list[Path], opened: int) -> None:
    """It was made this moment: whoever sweeps may neither remove it nor hold the lock that its writer wants."""
    made = filled[0].parent / f"{files.TEMPORARY}1-aa"
    made.write_bytes(b"")
    files.remove_stale_temporaries(_shard(made))
    sweep(opened, trust.OWN, 0, minimum_age=0.0)
    assert made.exists()
    os.utime(made, (time.time() - 2 * files.UNLOCKED_FOR,) * 2)
    sweep(opened, trust.OWN, minimum_age=0.0)
    assert not made.exists()


def test_where_locks_cannot_tell_a_minute_does(
    filled: list[Path], opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    young, old = (filled[0].parent / f"{files.TEMPORARY}{name}" for name in ("1-aa", "2-bb"))
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 120,) * 2)
    assert sweep(opened, trust.OWN, 0, minimum_age=0.0).kept == 1
    assert young.exists() and not old.exists()
    os.utime(young, (1.0, 1.0))
    files.remove_stale_temporaries(_shard(young))
    assert not young.exists()


def test_a_file_taken_away_before_its_lock_is_written_again(
    root: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    write_all = files.write_all

    def sweep_first(file: int, data: bytes) -> None:
        if not taken:
            taken.append(os.readlink(f"/proc/self/fd/{file}"))
            os.unlink(taken[0])
        write_all(file, data)

    monkeypatch.setattr(files, "write_all", sweep_first)
    store = Store(str(root))
    assert store.write(entry) and taken and store.read(entry.digest) is not None


def _shard(entry: Path) -> int:
    return os.open(entry.parent, os.O_RDONLY | os.O_DIRECTORY)


def test_only_our_names_are_removed(filled: list[Path], opened: int, root: Path) -> None:
    theirs = [root / "x.recipe", root / VERSION / "notes.txt", filled[0].parent / "notes", root / "v2x" / "a.recipe"]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("theirs")
        os.utime(path, (1.0, 1.0))
    folder = filled[0].parent / "folder.recipe"
    folder.mkdir()
    assert sweep(opened, trust.OWN, 0, minimum_age=0.0).kept == 0
    assert all(path.exists() for path in [*theirs, folder])


def test_links_are_not_followed(filled: list[Path], opened: int, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "a.recipe"
    outside.parent.mkdir()
    outside.write_text("precious")
    (root / VERSION / "ab").symlink_to(outside.parent)
    (root / "v9").symlink_to(outside.parent)
    (filled[0].parent / "l.recipe").symlink_to(outside)
    sweep(opened, trust.OWN, 0, minimum_age=0.0)
    assert outside.exists()


def test_another_sweep_at_the_same_time_is_no_trouble(
    filled: list[Path], opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes each file right before this one does."""
    unlink = os.unlink

    def late(name: str, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", late)
    assert sweep(opened, trust.OWN, 0, minimum_age=0.0) == Swept(0, 0, 0, 0)
    assert not any(path.exists() for path in filled)


def test_what_cannot_be_removed_is_left(filled: list[Path], opened: int, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = os.unlink

    def refuse(name: str, dir_fd: int) -> None:
        if name == filled[9].name:
            raise PermissionError(13, "no")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    swept = sweep(opened, trust.OWN, _size(filled[:5]))
    assert swept.kept_bytes <= _size([p for p in filled if p.exists()])
    assert filled[9].exists() and not filled[8].exists()


def test_a_store_keeps_its_limit(root: Path, make_entry: Callable[..., Entry]) -> None:
    entries = [make_entry(seed=seed) for seed in range(60)]
    size = len(encode(entries[0]))
    store = Store(str(root), stats := Stats(), Options(limit=20 * size, minimum_age=0.0))
    most = 0
    for entry in entries:
        assert store.write(entry)
        most = max(most, sum(path.stat().st_size for path in root.rglob("*.recipe")))
        time.sleep(0.002)
    counts = stats.counts()
    assert most <= 20 * size + 2 * size, "an entry beyond the limit, until the sweep after it"
    assert counts.evicted > 0 and counts.evicted_bytes == pytest.approx(counts.evicted * size, rel=0.02)
    left = {row.header["digest"] for row in store.listing() if row.header}
    assert left == {entry.digest for entry in entries[-len(left) :]}


def test_a_disk_without_locks_keeps_its_limit(
    root: Path, make_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(lock, "_set", refuse)
    size = len(encode(make_entry()))
    store = Store(str(root), stats := Stats(), Options(limit=20 * size, minimum_age=0.0))
    for seed in range(60):
        assert store.write(make_entry(seed=seed))
    assert len(store.listing()) <= 22 and stats.counts().evicted > 0
    monkeypatch.setattr(journal, "MOST_BYTES", 500)
    for n in range(60):
        journal.Journal().flush(store, {"n": n})
    assert sum(path.stat().st_size for path in root.rglob("journal*")) < 2000


def test_sweeps_are_rare(root: Path, make_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = []
    scan = bounds._scan
    monkeypatch.setattr(bounds, "_scan", lambda *args: sweeps.append(1) or scan(*args))
    size = len(encode(make_entry()))
    store = Store(str(root), Stats(), Options(limit=320 * size))
    for seed in range(60):
        store.write(make_entry(seed=seed))
    assert 1 <= len(sweeps) <= 4, "the first write looks, and then one in a sixteenth of the limit"


def test_a_full_cache_of_young_entries_is_not_swept_at_every_store() -> None:
    limit = Bounds(6400)
    assert limit.wrote(1)
    limit.swept(10_000)
    assert [limit.wrote(10) for _ in range(20)].count(True) == 2


def test_what_is_larger_than_the_cache_is_not_kept(root: Path, entry: Entry) -> None:
    store = Store(str(root), stats := Stats(), Options(limit=1000))
    assert not store.write(entry)
    assert not root.exists() and stats.counts().failures == 0
