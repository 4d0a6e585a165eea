"""The disk level believes only files of its own user, in directories that nobody else can write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from habana_tf.cache import journal
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.reader import VERSION, Options
from habana_tf.files import trust
from tests.versions import as_root

NOBODY = 65534


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
