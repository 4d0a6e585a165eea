"""Looking, verifying, pruning and clearing a cache directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf import cache
from habana_tf.cache import directory, lock
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.lock import LockUnavailable
from habana_tf.cache.reader import VERSION, NoDirectory, ReadOnly
from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.files.trust import Refused


@pytest.fixture
def filled(root: Path, make_entry: Callable[..., Entry]) -> list[Path]:
    """Five entries; the n-th was used n days ago."""
    paths = []
    for seed in range(5):
        entry = make_entry(seed=seed)
        Store(str(root)).write(entry)
        (path,) = root.rglob(f"*{entry.digest}.recipe")
        os.utime(path, (time.time() - seed * 86400,) * 2)
        paths.append(path)
    return paths


def test_all_intact(filled: list[Path], root: Path) -> None:
    verified = cache.verify()
    assert (verified.good, verified.problems) == (5, ())
    assert verified.file_bytes == sum(path.stat().st_size for path in filled)
    assert cache.verify(str(root)).good == 5


def test_damage_is_found_and_nothing_changes(filled: list[Path]) -> None:
    for path, change in zip(filled, ("header", "payload", "name", "mode"), strict=False):
        data = bytearray(path.read_bytes())
        data[100 if change == "header" else -20] ^= change in ("header", "payload")
        path.write_bytes(data)
        if change == "name":
            path.rename(path.with_name(f"x-{'0' * 64}.recipe"))
        if change == "mode":
            path.chmod(0o602)
    verified = cache.verify()
    assert verified.good == 1
    problems = " | ".join(problem for _, problem in verified.problems)
    for words in ("header is damaged", "digest does not match", "another key than its name", "written by others"):
        assert words in problems
    assert filled[0].exists() and not (filled[0].parents[1] / "quarantine").exists()


def test_prune(filled: list[Path]) -> None:
    assert cache.prune().removed == 0
    assert cache.prune(unused_for=3.5 * 86400).removed == 1
    swept = cache.prune(max_bytes=filled[0].stat().st_size * 5 // 2)
    assert (swept.removed, swept.kept) == (2, 2)
    assert [path.exists() for path in filled] == [True, True, False, False, False]


def test_clear(filled: list[Path], root: Path) -> None:
    recipes = RecipeCache()
    recipes.lookup(cache.Key.of([("cluster", "c")]))
    recipes.close()
    (root / "mine.txt").write_text("kept")
    assert cache.clear().removed == 5
    assert {path.name for path in root.rglob("*") if path.is_file()} <= {"locks", "mine.txt"}
    assert (root / "mine.txt").exists()
    assert cache.entries() == [] and cache.events() == []


def test_mode_ro_forbids_changes_and_off_does_not(filled: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "ro")
    for change in (cache.prune, cache.clear):
        with pytest.raises(ReadOnly, match="HABANA_SIM_CACHE_MODE=ro"):
            change()
    assert cache.verify().good == 5
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "off")
    assert cache.clear().removed == 5


def test_a_directory_of_others_is_not_touched(filled: list[Path], root: Path) -> None:
    root.chmod(0o777)
    for look in (cache.entries, cache.verify, cache.prune, cache.clear):
        with pytest.raises(Refused, match="chmod go-w"):
            look()
    assert "chmod go-w" in str(cache.health().refused)
    assert all(path.exists() for path in filled)


def test_no_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoDirectory, match="nothing was cached there"):
        cache.entries()
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH")
    with pytest.raises(NoDirectory, match="set TF_RECIPE_CACHE_PATH"):
        cache.health()


def test_health(filled: list[Path], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_SIZE_MB", "3")
    (root / "v1").mkdir()
    health = cache.health()
    assert (health.root, health.refused, health.writable, health.locks) == (str(root), None, True, None)
    assert (health.used_bytes, health.limit_bytes) == (sum(path.stat().st_size for path in filled), 3 << 20)
    assert health.free_bytes == pytest.approx(os.statvfs(root).f_bavail * os.statvfs(root).f_frsize, rel=0.05)
    assert health.versions == ("v1", VERSION)
    assert health.file_system and health.network is (health.file_system in directory._NETWORK)


def test_health_says_that_there_are_no_locks(filled: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, kind: int, start: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock, "_set", fail)
    assert "No locks available" in str(cache.health().locks)
    assert issubclass(LockUnavailable, OSError)


def test_proc_is_proc() -> None:
    assert directory.file_system("/proc") == "proc"
