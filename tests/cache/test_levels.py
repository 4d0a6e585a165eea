"""Memory before disk, one compilation per key between threads and processes, and settings read when needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from habana_tf import cache
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.levels import RecipeCache

KEY = Key.of([("cluster", b"graph"), ("shapes", [[2, 3]])])
CODE = b"\x90" * 1000


def put(recipes: RecipeCache, key: Key = KEY, size: int = 1000) -> Entry:
    return recipes.store(key, "dense", {"ops": {"MatMul": 1}}, {"object": b"\x90" * size}, 0.25)


def test_without_a_directory_recipes_live_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", "")
    monkeypatch.chdir(tmp_path)
    recipes = RecipeCache()
    assert recipes.lookup(KEY) is None
    put(recipes)
    found = recipes.lookup(KEY)
    assert found is not None and found.sections["object"] == CODE
    counts = recipes.stats.counts()
    assert (counts.misses, counts.memory_hits, counts.disk_hits, counts.compiled) == (1, 1, 0, 1)
    assert (counts.stored, counts.compile_seconds) == (0, 0.25)
    assert list(tmp_path.iterdir()) == []
    assert RecipeCache().lookup(KEY) is None


def test_another_cache_finds_it_on_disk_once(root: Path) -> None:
    put(RecipeCache())
    recipes = RecipeCache()
    for _ in range(3):
        found = recipes.lookup(KEY)
        assert found is not None and found.name == "dense"
    counts = recipes.stats.counts()
    assert (counts.disk_hits, counts.memory_hits, counts.misses, counts.saved_seconds) == (1, 2, 0, 0.25)


def test_the_directory_is_read_when_needed_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH", raising=False)
    recipes = RecipeCache(memory_bytes=0)
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


def test_memory_is_bounded_and_keeps_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH", raising=False)
    recipes = RecipeCache(memory_bytes=2500)
    keys = [Key.of([("n", n)]) for n in range(3)]
    put(recipes, keys[0])
    put(recipes, keys[0])
    put(recipes, keys[1])
    assert recipes.lookup(keys[0]) is not None
    put(recipes, keys[2])
    assert [recipes.lookup(key) is not None for key in keys] == [True, False, True]


@pytest.mark.parametrize("on_disk", [False, True])
def test_one_thread_compiles_and_the_others_get_it(on_disk: bool, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not on_disk:
        monkeypatch.delenv("TF_RECIPE_CACHE_PATH")
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
    assert counts.misses + counts.memory_hits == 8
    assert counts.shared == counts.misses - 1
    assert counts.wait_seconds > 0
    assert not recipes._in_flight, "nothing is kept for finished compilations"


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
    assert time.monotonic() - start < 1
    assert recipes.stats.counts().shared == 0


def test_a_holder_that_hangs_is_not_waited_for_for_ever(root: Path) -> None:
    """As another process would: two caches share nothing but the directory."""
    with RecipeCache().compiling(KEY), RecipeCache(lock_timeout=0.1).compiling(KEY) as entry:
        assert entry is None


PROCESS = """
import json, sys, time
from habana_tf import cache
key = cache.Key.of([("cluster", b"graph"), ("shapes", [[2, 3]])])
print("ready", flush=True)
sys.stdin.readline()
entry = cache.lookup(key)
if entry is None:
    with cache.compiling(key) as entry:
        if entry is None:
            time.sleep(0.5)
            entry = cache.store(key, "dense", {}, {"object": b"code"}, 0.5)
print(json.dumps([entry.sections["object"].decode(), cache.stats().to_json()]))
"""


def test_eight_processes_compile_once(root: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    results = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert [code for code, _ in results] == ["code"] * 8
    assert sum(counts["compiled"] for _, counts in results) == 1
    assert sum(counts["shared"] + counts["disk_hits"] for _, counts in results) == 7
    assert sum(counts["saved_seconds"] for _, counts in results) == 3.5
    assert not any(counts["failures"] or counts["corrupt"] for _, counts in results)


def test_the_process_has_one_cache(root: Path) -> None:
    key = Key.of([("only in", "this test")])
    before = cache.stats().counts()
    assert cache.lookup(key) is None
    with cache.compiling(key) as entry:
        assert entry is None
        cache.store(key, "dense", {}, {"object": CODE}, 0.5)
    found = cache.lookup(key)
    assert found is not None and found.sections["object"] == CODE
    after = cache.stats().counts()
    assert (after.misses - before.misses, after.memory_hits - before.memory_hits) == (1, 1)
