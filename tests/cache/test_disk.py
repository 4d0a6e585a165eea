"""The disk level believes only intact files of its own user, and no trouble of the disk reaches a compile."""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from habana_tf.cache import journal
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, decode, encode
from habana_tf.cache.reader import VERSION, Options
from habana_tf.files import trust
from tests.versions import as_root

NOBODY = 65534


@pytest.fixture
def stats() -> Stats:
    return Stats()


@pytest.fixture
def store(root: Path, stats: Stats) -> Store:
    return Store(str(root), stats)


@pytest.fixture
def stored(store: Store, root: Path, entry: Entry) -> Path:
    """The file of `entry`, just written."""
    assert store.write(entry)
    return next(root.rglob("*.recipe"))


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages logged so far, however the package's logger was configured before."""
    caplog.set_level(logging.WARNING, logger="habana_tf")
    monkeypatch.setattr(logging.getLogger("habana_tf"), "propagate", True)
    return lambda: [record.getMessage() for record in caplog.records]


def test_round_trip(store: Store, stats: Stats, root: Path, entry: Entry, stored: Path) -> None:
    found = store.read(entry.digest)
    assert found is not None and found.sections == entry.sections
    assert stored == root / VERSION / entry.digest[:2] / f"dense_relu-{entry.digest}.recipe"
    assert stats.counts().stored == 1


def test_what_is_created_is_private(root: Path, stored: Path) -> None:
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    for directory in (root, *(path for path in root.rglob("*") if path.is_dir())):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_names_become_safe_file_names(store: Store, root: Path, make_entry: Callable[..., Entry]) -> None:
    for seed, name in enumerate(["../../etc/x", "a/b:c d", "", "é" * 300, "..."]):
        entry = make_entry(name=name, seed=seed)
        assert store.write(entry)
        found = store.read(entry.digest)
        assert found is not None and found.name == name
    assert len(list(root.glob(f"{VERSION}/??/*.recipe"))) == 5


def test_a_missing_directory_is_a_quiet_miss(store: Store, entry: Entry, warnings: Callable[[], list[str]]) -> None:
    assert store.read(entry.digest) is None
    assert store.listing() == []
    assert not warnings()


def test_no_temporary_file_stays(root: Path, stored: Path) -> None:
    assert {path.name for path in root.rglob("*") if path.is_file()} == {stored.name, "locks"}


def test_leftovers_of_killed_processes_go(store: Store, entry: Entry, stored: Path) -> None:
    old, young = stored.parent / ".tmp-1-aa", stored.parent / ".tmp-2-bb"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1.0, 1.0))
    assert store.write(entry)
    assert not old.exists() and not young.exists()
    assert len(store.listing()) == 1


def test_use_is_noted_at_most_once_a_minute(store: Store, entry: Entry, stored: Path) -> None:
    os.utime(stored, (1.0, 1.0))
    store.read(entry.digest)
    touched = stored.stat().st_mtime
    assert touched > 1e9
    os.utime(stored, (touched - 30, touched - 30))
    store.read(entry.digest)
    assert stored.stat().st_mtime == pytest.approx(touched - 30, abs=0.01)


# --- damaged entries ---


@pytest.mark.parametrize("damage", ["truncate", "empty", "extend", "header", "payload", "digest", "other"])
def test_a_damaged_entry_is_a_miss_and_put_aside(
    store: Store,
    stats: Stats,
    root: Path,
    entry: Entry,
    stored: Path,
    make_entry: Callable[..., Entry],
    warnings: Callable[[], list[str]],
    damage: str,
) -> None:
    data = bytearray(stored.read_bytes())
    middle = random.Random(damage).randrange(len(data) // 2, len(data) - 32)
    for kind, position in (("header", 60), ("payload", middle), ("digest", len(data) - 1)):
        if damage == kind:
            data[position] ^= 4
    changed = {
        "truncate": bytes(data[:-100]),
        "empty": b"",
        "extend": bytes(data) + b"\0",
        "other": encode(make_entry(seed=5)),
    }
    stored.write_bytes(changed.get(damage, bytes(data)))
    assert store.read(entry.digest) is None
    assert stats.counts().corrupt == 1
    assert not stored.exists()
    assert len(list((root / VERSION / "quarantine").iterdir())) == 1
    assert len(warnings()) == 1 and "damaged" in warnings()[0] and "compiled again" in warnings()[0]
    assert store.write(entry)
    assert store.read(entry.digest) is not None


def test_the_quarantine_is_bounded(store: Store, root: Path, make_entry: Callable[..., Entry]) -> None:
    for seed in range(12):
        entry = make_entry(seed=seed)
        store.write(entry)
        next(root.glob(f"{VERSION}/??/*{entry.digest}.recipe")).write_bytes(b"x")
        assert store.read(entry.digest) is None
    assert len(list((root / VERSION / "quarantine").iterdir())) == 8


# --- entries and directories of others ---


@as_root
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_foreign_owner_is_refused(
    store: Store, stats: Stats, entry: Entry, stored: Path, warnings: Callable[[], list[str]], level: int
) -> None:
    os.chown([stored, *stored.parents][level], NOBODY, -1)
    assert store.read(entry.digest) is None
    assert store.read(entry.digest) is None
    assert stats.counts().refused == 2
    assert stored.exists(), "what is not ours is left alone"
    assert len(warnings()) == 1 and "belongs to user 65534" in warnings()[0]
    assert "HABANA_SIM_CACHE_OWNER=65534" in warnings()[0]
    assert store.write(entry) is (level == 0), "a foreign file is replaced, a foreign directory is not used"


def test_another_current_user_refuses_our_files(
    store: Store, entry: Entry, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = stored.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert (store.read(entry.digest) is not None) is (owner == 0), "root's files are believed, others' are not"


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("bit", [0o020, 0o002])
def test_what_others_can_write_is_refused(
    store: Store,
    stats: Stats,
    entry: Entry,
    stored: Path,
    warnings: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    level: int,
    bit: int,
) -> None:
    path = [stored, *stored.parents][level]
    monkeypatch.setattr(trust, "_is_private_group", lambda user, group: False)
    path.chmod(0o700 | bit)
    assert store.read(entry.digest) is None
    assert stats.counts().refused == 1
    assert stored.exists()
    assert "chmod go-w" in warnings()[0] and str(path) in warnings()[0]
    path.chmod(0o700)
    assert store.read(entry.digest) is not None


def test_a_sticky_root_such_as_tmp_is_fine(store: Store, entry: Entry, stored: Path, root: Path) -> None:
    root.chmod(0o1777)
    assert store.read(entry.digest) is not None
    (root / VERSION).chmod(0o1777)
    assert store.read(entry.digest) is None, "only the root may be sticky and open to all"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_symbolic_links_below_the_root_are_refused(
    store: Store, stats: Stats, entry: Entry, stored: Path, tmp_path: Path, level: int
) -> None:
    path = [stored, *stored.parents][level]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.read(entry.digest) is None
    assert stats.counts().refused == 1
    assert path.is_symlink()


def test_the_root_itself_may_be_a_symbolic_link(
    entry: Entry, stored: Path, root: Path, tmp_path: Path, stats: Stats
) -> None:
    (tmp_path / "link").symlink_to(root)
    assert Store(str(tmp_path / "link"), stats).read(entry.digest) is not None


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_only_regular_files_are_read(store: Store, stats: Stats, entry: Entry, stored: Path, kind: str) -> None:
    stored.unlink()
    if kind == "pipe":
        os.mkfifo(stored)
    else:
        stored.mkdir()
    assert store.read(entry.digest) is None
    assert stats.counts().refused == 1


# --- trouble of the disk ---


@pytest.mark.parametrize("name", ["open", "write", "rename", "mkdir", "listdir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_errors_are_one_warning(
    store: Store,
    stats: Stats,
    root: Path,
    entry: Entry,
    make_entry: Callable[..., Entry],
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
    name: str,
    number: int,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        for seed in range(3):
            assert store.write(make_entry(seed=seed)) is False
    assert stats.counts().failures == 3
    assert len(warnings()) == 1
    assert os.strerror(number) in warnings()[0] and str(root) in warnings()[0]
    assert not [path for path in root.rglob("*") if path.is_file()], "nothing half-written stays"
    assert store.write(entry)


@pytest.mark.parametrize("name", ["open", "read", "listdir"])
def test_errors_while_reading_are_a_miss(
    store: Store,
    entry: Entry,
    stored: Path,
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
    name: str,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        assert store.read(entry.digest) is None
        assert store.read(entry.digest) is None
    assert len(warnings()) == 1
    assert stored.exists()
    assert store.read(entry.digest) is not None


def test_the_root_is_a_file(root: Path, entry: Entry, stats: Stats, warnings: Callable[[], list[str]]) -> None:
    root.parent.mkdir(parents=True)
    root.write_text("not a directory")
    store = Store(str(root), stats)
    assert store.read(entry.digest) is None
    assert store.write(entry) is False
    with store.compiling(entry.digest, 1.0) as taken:
        assert not taken
    assert 1 <= len(warnings()) <= 2


def test_the_directory_is_deleted_under_use(
    store: Store, root: Path, entry: Entry, stored: Path, warnings: Callable[[], list[str]]
) -> None:
    shutil.rmtree(root)
    assert store.read(entry.digest) is None
    with store.compiling(entry.digest, 1.0) as taken:
        assert taken
        shutil.rmtree(root)
        assert store.write(entry)
    assert store.read(entry.digest) is not None
    assert not warnings()


def test_the_directory_is_deleted_while_writing(
    store: Store, root: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    write = os.write

    def delete_once(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        shutil.rmtree(root)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", delete_once)
    assert store.write(entry)
    assert store.read(entry.digest) is not None
    assert not warnings()


def test_nobody_waits_for_the_disk(store: Store, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, name, lambda *descriptor: pytest.fail("a write waits for the disk"))
    assert store.write(entry)
    assert store.read(entry.digest) is not None


@pytest.fixture
def public_root() -> Iterator[Path]:
    """A root that another user can reach."""
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        yield Path(parent) / "recipes"


@as_root
def test_a_directory_of_root_is_a_read_only_cache_for_others(
    public_root: Path, entry: Entry, make_entry: Callable[..., Entry], warnings: Callable[[], list[str]]
) -> None:
    assert Store(str(public_root), Stats()).write(entry)
    for path in [public_root, *public_root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    store = Store(str(public_root), Stats())
    os.seteuid(NOBODY)
    try:
        assert store.read(entry.digest) is not None
        other = make_entry(seed=1)
        assert store.read(other.digest) is None
        with store.compiling(other.digest, 1.0) as taken:
            assert not taken
            assert store.write(other) is False
    finally:
        os.seteuid(0)
    (warning,) = warnings()
    assert "cannot write recipes: Permission denied; going on without. Make it yours (chown, chmod" in warning
    assert "TF_RECIPE_CACHE_PATH" in warning and "HABANA_SIM_CACHE_MODE=ro" in warning


def test_a_file_in_the_way_is_a_warning_with_its_remedy(
    tmp_path: Path, entry: Entry, warnings: Callable[[], list[str]]
) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        assert Store(str(root), Stats()).write(entry) is False
        assert "A file is in the way: choose another directory by TF_RECIPE_CACHE_PATH" in warnings()[-1]


@as_root
def test_what_root_makes_for_the_owner_is_the_owners(
    public_root: Path, entry: Entry, make_entry: Callable[..., Entry]
) -> None:
    """Root in a container that writes into a user's volume, with HABANA_SIM_CACHE_OWNER."""
    public_root.mkdir(mode=0o700)
    os.chown(public_root, NOBODY, NOBODY)
    inside = Store(str(public_root), Stats(), Options(owner=NOBODY))
    assert inside.write(entry)
    with inside.compiling(entry.digest, 1.0) as taken:
        assert taken
    journal.Journal().flush(inside, {"n": 1})
    outside = Store(str(public_root), Stats())
    os.seteuid(NOBODY)
    try:
        assert outside.read(entry.digest) is not None
        assert outside.write(make_entry(seed=1)) and outside.write(entry)
        with outside.compiling(entry.digest, 1.0) as taken:
            assert taken
        journal.Journal().flush(outside, {"n": 2})
        assert [event.counts["n"] for event in journal.read(outside)] == [1, 2]
    finally:
        os.seteuid(0)
    assert inside.read(make_entry(seed=1).digest) is not None


def test_a_good_entry_in_the_place_of_a_damaged_one_is_not_put_aside(
    store: Store, root: Path, stored: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process met the damage too, was faster and has compiled the recipe."""
    stored.write_bytes(stored.read_bytes()[:-1])

    def late(data: bytes) -> Entry:
        Store(str(root)).write(entry)
        return decode(data)

    with monkeypatch.context() as patched:
        patched.setattr(store, "decoded", late)
        assert store.read(entry.digest) is None
    assert store.read(entry.digest) is not None
    assert not list(root.rglob("quarantine/*"))


def test_a_file_of_any_size_is_not_read(
    store: Store, stored: Path, entry: Entry, warnings: Callable[[], list[str]]
) -> None:
    os.truncate(stored, 1 << 40)
    assert store.read(entry.digest) is None
    assert len(warnings()) == 1 and "more than TF_RECIPE_CACHE_SIZE_MB" in warnings()[0]
    ((_, data, problem),) = store.contents_of_all()
    assert data is None and "more than TF_RECIPE_CACHE_SIZE_MB" in problem


def test_a_relative_path_in_a_deleted_directory_is_no_error(
    tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    store = Store("recipes", Stats())
    assert store.read(entry.digest) is None and store.write(entry) is False
    monkeypatch.chdir(tmp_path)


# --- listing ---


def test_a_listing_shows_good_and_bad_entries(
    store: Store, root: Path, stored: Path, make_entry: Callable[..., Entry]
) -> None:
    store.write(make_entry(name="other", seed=1))
    data = bytearray(stored.read_bytes())
    data[60] ^= 1
    stored.write_bytes(data)
    stored.with_name(stored.name.replace("dense", "link")).symlink_to(stored)
    listed = {Path(row.path).name.split("-")[0]: row for row in store.listing()}
    assert listed["other"].header is not None and listed["other"].header["ops"] == {"MatMul": 1, "Relu": 1}
    assert listed["other"].file_bytes == os.stat(listed["other"].path).st_size
    assert listed["dense_relu"].problem == "the header is damaged"
    assert listed["dense_relu"].last_used == stored.stat().st_mtime
    assert "symbolic link" in str(listed["link_relu"].problem)
    assert stored.exists(), "a listing changes nothing"
