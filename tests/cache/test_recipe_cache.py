"""The directory of a process, one compilation per key between those who share it, and settings read when needed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from habana_tf import cache, settings
from habana_tf.cache.counters import Counts
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import KnownFailure, RecipeCache

KEY = Key.of([("cluster", b"graph"), ("shapes", [[2, 3]])])
CODE = b"\x90" * 1000


def put(recipes: RecipeCache, key: Key = KEY, size: int = 1000) -> Entry:
    return recipes.store(key, "dense", {"ops": {"MatMul": 1}}, {"object": b"\x90" * size}, 0.25)


def test_without_a_directory_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", "")
    monkeypatch.chdir(tmp_path)
    recipes = RecipeCache()
    assert put(recipes).sections["object"] == CODE
    assert recipes.lookup(KEY) is None
    counts = recipes.stats.counts()
    assert (counts.misses, counts.memory_hits, counts.disk_hits, counts.compiled) == (1, 0, 0, 1)
    assert (counts.stored, counts.compile_seconds) == (0, 0.25)
    assert list(tmp_path.iterdir()) == []


def test_another_cache_finds_it_on_disk(root: Path) -> None:
    put(RecipeCache())
    recipes = RecipeCache()
    for _ in range(3):
        found = recipes.lookup(KEY)
        assert found is not None and found.name == "dense"
    counts = recipes.stats.counts()
    assert (counts.disk_hits, counts.memory_hits, counts.misses, counts.saved_seconds) == (3, 0, 0, 0.75)


def test_the_directory_is_read_when_needed_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH", raising=False)
    recipes = RecipeCache()
    put(recipes)
    for name in ("a", "b"):
        monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / name))
        assert recipes.lookup(KEY) is None
        put(recipes)
        assert recipes.lookup(KEY) is not None
        assert len(list((tmp_path / name).rglob("*.recipe"))) == 1


def test_the_header_says_what_the_cache_knows(root: Path) -> None:
    put(RecipeCache())
    found = RecipeCache().lookup(KEY)
    assert found is not None
    assert found.header["ops"] == {"MatMul": 1}
    assert found.header["digest"] == KEY.digest
    assert found.key.digest == KEY.digest
    assert abs(found.header["created"] - time.time()) < 60
    assert found.compile_seconds == 0.25


def test_one_thread_compiles_and_the_others_get_it(root: Path) -> None:
    recipes = RecipeCache()
    compiled, found = [], []

    def work() -> None:
        entry = recipes.lookup(KEY)
        if entry is None:
            with recipes.compiling(KEY) as entry:
                if entry is None:
                    compiled.append(1)
                    time.sleep(0.2)
                    entry = put(recipes)
        found.append(entry.digest)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == [1]
    assert found == [KEY.digest] * 8
    counts = recipes.stats.counts()
    assert counts.compiled == 1
    assert counts.misses + counts.disk_hits == 8
    assert counts.shared == counts.misses - 1
    assert counts.wait_seconds > 0


def test_other_keys_are_not_held_up(root: Path) -> None:
    recipes = RecipeCache()
    with recipes.compiling(KEY), recipes.compiling(Key.of([("n", 1)])) as entry:
        assert entry is None


def test_a_failed_compilation_passes_the_turn_on(root: Path) -> None:
    recipes = RecipeCache()
    with pytest.raises(KeyboardInterrupt), recipes.compiling(KEY):
        raise KeyboardInterrupt
    start = time.monotonic()
    with recipes.compiling(KEY) as entry:
        assert entry is None
    assert time.monotonic() - start < 40  # less than a turn is waited for
    assert recipes.stats.counts().shared == 0


def test_a_holder_that_hangs_is_not_waited_for_for_ever(root: Path) -> None:
    """As another process would: two caches share nothing but the directory."""
    with RecipeCache().compiling(KEY), RecipeCache(lock_timeout=0.1).compiling(KEY) as entry:
        assert entry is None


# --- failures ---


def test_a_failure_is_known_to_others_and_replaced_by_a_recipe(root: Path) -> None:
    recipes = RecipeCache()
    recipes.store_failure(KEY, "dense", {"ops": {"TopK": 1}}, "no kernel for it", 0.1)
    for cache_ in (recipes, other := RecipeCache()):
        with pytest.raises(KnownFailure) as known:
            cache_.lookup(KEY)
        assert known.value.reason == "no kernel for it"
    assert other.stats.counts() == Counts(known_failures=1)
    put(other)
    found = RecipeCache().lookup(KEY)
    assert found is not None and found.sections["object"] == CODE
    assert len(list(root.rglob("*.recipe"))) == 1


def test_who_waited_for_a_compilation_that_failed_does_not_try(root: Path) -> None:
    recipes = RecipeCache()
    assert recipes.lookup(KEY) is None
    RecipeCache().store_failure(KEY, "dense", {}, "no kernel", 0.1)
    with pytest.raises(KnownFailure), recipes.compiling(KEY):
        raise AssertionError("nothing is to be compiled")


# --- the settings are read when needed ---


def test_size_and_mode_may_change_at_any_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = RecipeCache()
    assert recipes.disk() is recipes.disk() is not None
    monkeypatch.setenv("TF_RECIPE_CACHE_SIZE_MB", "7")
    disk = recipes.disk()
    assert disk is not None and disk.options.limit == 7 << 20
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "off")
    assert recipes.disk() is None
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "sometimes")
    with pytest.raises(settings.SettingError, match="rw, ro, refresh, off"):
        recipes.disk()


def test_events_go_to_the_directory_where_they_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = RecipeCache()
    for name in ("a", "b"):
        monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / name))
        recipes.disk()
        recipes.store(Key.of([("n", name)]), name, {}, {}, 0.1)
    recipes.close()
    assert [e.name for e in cache.events(str(tmp_path / "a"))] == ["a"]
    assert [e.name for e in cache.events(str(tmp_path / "b"))] == ["b", ""]
