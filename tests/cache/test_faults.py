"""What may happen to a cache that processes share: kills, deletion, a full disk, clocks, floods. No step fails for it.

The fault table of docs/recipe-cache.md, as far as one process and one module cannot show it; damaged bytes are in
`test_entry`, owners and links in `test_disk_owners`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from habana_tf import settings
from habana_tf.cache import bounds, recipe_cache
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.reader import VERSION, Options
from habana_tf.cache.recipe_cache import RecipeCache

REPOSITORY = Path(__file__).parents[2]
YEAR = 365 * 86400.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system in memory if there is one: the processes of these tests write thousands of files."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(dir=shared))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def hammer(what: str, place: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cache.hammer", what, str(place / "recipes")],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "said": done.stderr}


def test_a_kill_at_any_stage_of_a_write_loses_nothing(place: Path) -> None:
    result = hammer("kill", place)
    assert result["killed"] >= 200 and min(result["kinds"].values()) >= 20, result
    assert result["wrong"] == 0, result


def test_a_directory_deleted_under_load_fails_nobody(place: Path) -> None:
    """One rank wipes the cache at its start, the others are at work already."""
    assert hammer("delete", place)["codes"] == [0] * 9


def test_eviction_under_load_fails_nobody(place: Path) -> None:
    result = hammer("evict", place)
    assert result["codes"] == [0] * 8, result
    assert result["evicted"] > 20
    assert result["left"] <= 150_000 + 8 * 25_000, "at most what each process wrote since somebody looked"


def test_sixteen_processes_compile_a_recipe_once(place: Path) -> None:
    result = hammer("once", place)
    assert result["codes"] == [0] * 16, result
    assert sum(counts["compiled"] for counts in result["counts"]) == 1
    assert sum(counts["shared"] + counts["disk_hits"] for counts in result["counts"]) == 15


# --- disks ---


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a small file system; gives its directory."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        path = tmp_path / "disk"
        path.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", str(path)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no right to mount: {done.stderr}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", str(path)], check=False)


def _use(recipes: RecipeCache, number: int) -> Entry:
    """What a step does for a recipe."""
    key = Key.of([("cluster", f"c{number}")])
    entry = recipes.lookup(key)
    if entry is None:
        with recipes.compiling(key) as entry:
            if entry is None:
                entry = recipes.store(key, "dense", {}, {"object": os.urandom(30_000)}, 0.1)
    return entry


def test_a_full_disk_is_one_warning_and_what_it_has_is_read(
    disk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("habana_tf"), "propagate", True)
    path = disk("size=128k")
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path / "recipes"))
    recipes = RecipeCache()
    made = [_use(recipes, n) for n in range(10)]
    kept = recipes.stats.counts().stored
    assert [_use(recipes, n).sections for n in range(kept)] == [entry.sections for entry in made[:kept]]
    recipes.close()
    counts = recipes.stats.counts()
    assert counts.compiled == 10 and 1 <= counts.stored < 10 and counts.failures == 10 - counts.stored
    again = Store(str(path / "recipes"), stats := Stats())
    assert len(again.listing()) == counts.stored
    assert all(row.problem is None for row in again.listing())
    assert not list(path.rglob(".tmp-*"))
    assert stats.counts().corrupt == 0
    (warning,) = (record.getMessage() for record in caplog.records if "cannot write" in record.getMessage())
    assert "No space left on device; going on without. Free some space" in warning


def test_a_read_only_disk_is_read(
    disk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("habana_tf"), "propagate", True)
    path = disk("size=1m")
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path / "recipes"))
    first = _use(RecipeCache(), 0)
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
    recipes = RecipeCache()
    assert _use(recipes, 0).sections == first.sections
    _use(recipes, 1)
    recipes.close()
    counts = recipes.stats.counts()
    assert (counts.disk_hits, counts.compiled, counts.stored) == (1, 1, 0)
    assert any("HABANA_SIM_CACHE_MODE=ro" in record.getMessage() for record in caplog.records)


# --- clocks ---


def test_a_clock_set_back_keeps_nothing_for_ever(
    root: Path, make_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything here was written and used a year from now."""
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(root))
    key = Key.of([("cluster", "c")])
    now = time.time()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: now + YEAR)
        RecipeCache().store_failure(key, "c", {}, "no kernel", 0.1)
        entry = make_entry()
        for each in (entry, make_entry(seed=1)):
            Store(str(root)).write(each)
    for path in root.rglob("*.recipe"):
        os.utime(path, (now + YEAR, now + YEAR))
    (path.parent / ".tmp-1-aa").write_bytes(b"half")
    os.utime(path.parent / ".tmp-1-aa", (now + YEAR, now + YEAR))
    assert RecipeCache().lookup(key) is None, "the failure is tried again"
    store = Store(str(root), options=Options(limit=1 << 20, minimum_age=60.0))
    assert store.read(entry.digest) is not None
    (used,) = [row.last_used for row in store.listing() if (row.header or {})["digest"] == entry.digest]
    assert abs(used - time.time()) < 60, "its use was noted with the time as it is now"
    with store.opened(create=False) as opened:
        swept = bounds.sweep(opened, store.policy, 0)
    assert (swept.removed, swept.kept) == (2, 2), "what was used just now stays, the half file and the unused go"


def test_the_time_of_a_failure_runs_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key.of([("cluster", "c")])
    recipes = RecipeCache()
    recipes.store_failure(key, "c", {}, "no kernel", 0.1)
    for cache in (recipes, RecipeCache()):
        with pytest.raises(recipe_cache.KnownFailure, match="no kernel"):
            cache.lookup(key)
    later = time.time() + recipe_cache.FAILURE_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert recipes.lookup(key) is None
    assert RecipeCache().lookup(key) is None


# --- versions ---


def test_other_versions_live_beside_it_and_age_out(root: Path, entry: Entry, make_entry: Callable[..., Entry]) -> None:
    store = Store(str(root), stats := Stats())
    store.write(entry)
    others = []
    for version in ("v3", "v99"):
        shutil.copytree(root / VERSION, root / version)
        (other,) = (root / version).rglob("*.recipe")
        other.write_bytes(other.read_bytes()[::-1])
        os.utime(other, (1e9, 1e9))
        others.append(other)
    assert store.read(entry.digest) is not None
    assert len(store.listing()) == 1
    assert stats.counts().corrupt == 0
    assert all(other.exists() for other in others), "what another version wrote is no damage"
    small = Store(str(root), stats, Options(limit=others[0].stat().st_size * 3 // 2))
    assert small.write(make_entry(seed=1))
    assert not any(other.exists() for other in others)
    assert stats.counts().evicted == 2
    assert len(store.listing()) == 2


def test_modes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(mode: str) -> tuple[int, int, int]:
        """A process that wants recipe 0: (from disk, compiled, stored)."""
        monkeypatch.setenv(settings.HABANA_SIM_CACHE_MODE.name, mode)
        recipes = RecipeCache()
        _use(recipes, 0)
        recipes.close()
        counts = recipes.stats.counts()
        return counts.disk_hits + counts.shared, counts.compiled, counts.stored

    def state() -> list[tuple[str, int, float]]:
        return [(str(p), p.stat().st_size, p.stat().st_mtime) for p in sorted(root.rglob("*"))]

    assert outcome("ro") == (0, 1, 0)
    assert outcome("off") == (0, 1, 0)
    assert not root.exists()
    assert outcome("rw") == (0, 1, 1)
    for path in root.rglob("*.recipe"):
        os.utime(path, (1e9, 1e9))
    before = state()
    assert outcome("ro") == (1, 0, 0)
    assert outcome("off") == (0, 1, 0)
    assert state() == before, "ro and off leave no trace"
    assert outcome("refresh") == (0, 1, 1)
    assert state() != before
    assert outcome("rw") == (1, 0, 0)


def test_in_mode_refresh_others_take_what_was_just_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(RecipeCache(), 0)
    time.sleep(0.01)
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "refresh")
    ranks = [RecipeCache() for _ in range(3)]
    for rank in ranks:
        rank.disk()
    time.sleep(0.01)
    for rank in ranks:
        _use(rank, 0)
    assert [rank.stats.counts().compiled for rank in ranks] == [1, 0, 0]
    _use(ranks[0], 0)
    assert ranks[0].stats.counts().compiled == 1


def test_in_mode_ro_a_damaged_entry_stays_where_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(RecipeCache(), 0)
    (path,) = root.rglob("*.recipe")
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "ro")
    recipes = RecipeCache()
    _use(recipes, 0)
    assert recipes.stats.counts().corrupt == 2, "met by the lookup and again before compiling"
    assert path.exists() and not list(root.rglob("quarantine"))
