"""After the run: what each run found, and why it missed what it missed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from habana_tf import cache
from habana_tf.cache.key import Key
from habana_tf.cache.levels import RecipeCache
from habana_tf.cache.reader import NoDirectory


def _key(shape: int, compiler: str = "1") -> Key:
    return Key.of([("cluster", "c"), ("inputs", [[shape]]), ("compiler", compiler)])


def _run(*keys: Key, fail: Key | None = None) -> RecipeCache:
    """A process that wants these recipes."""
    recipes = RecipeCache()
    for key in keys:
        if recipes.lookup(key, "dense") is None:
            recipes.store(key, "dense", {}, {"object": b"code"}, 0.5)
        time.sleep(0.002)
    if fail is not None:
        recipes.store_failure(fail, "topk", {}, "no kernel", 0.1)
    recipes.close()
    return recipes


def test_runs_and_their_counters(root: Path) -> None:
    _run(_key(8))
    _run(_key(8), _key(9), fail=_key(1))
    first, second = cache.runs()
    assert first.began < second.began
    assert (first.count("miss"), first.count("compiled"), first.count("hit")) == (1, 1, 0)
    assert (second.count("miss"), second.count("compiled"), second.count("hit")) == (1, 1, 1)
    assert first.counts is not None and first.counts.compile_seconds == 0.5
    assert second.counts is not None and (second.counts.disk_hits, second.counts.saved_seconds) == (1, 0.5)
    totals = cache.totals()
    assert (totals.compiled, totals.misses, totals.disk_hits, totals.failed) == (2, 2, 1, 1)
    assert [event.event for event in cache.events()] == [
        "miss", "compiled", "end", "hit", "miss", "compiled", "failed", "end",
    ]  # fmt: skip


def test_why_the_last_run_missed(root: Path) -> None:
    _run(_key(8))
    _run(_key(8), _key(9))
    _run(_key(9))
    (miss,) = cache.misses()
    assert miss.nearest == "dense"
    (difference,) = miss.differences
    assert difference.name == "inputs"
    assert difference.left is not None and difference.left.value == [[9]]
    assert difference.right is not None and difference.right.value == [[8]]
    assert str(miss) == "dense: differs from the nearest recipe in inputs"
    _run(_key(9, compiler="2"))
    assert [str(miss) for miss in cache.misses()] == ["dense: differs from the nearest recipe in compiler"]
    first = cache.runs()[0].run
    assert [str(miss) for miss in cache.misses(run=first)] == ["dense: nothing like it was in the cache"]


def test_the_names_stay_when_the_entries_are_gone(root: Path) -> None:
    _run(_key(8))
    _run(_key(9))
    for path in root.rglob("*.recipe"):
        path.unlink()
    (miss,) = cache.misses()
    assert [(d.name, d.left, d.right) for d in miss.differences] == [("inputs", None, None)]


def test_any_two_entries_can_be_compared(root: Path) -> None:
    _run(_key(8), _key(9, compiler="2"))
    left, right = cache.entries()
    assert {difference.name for difference in cache.explain(left, right)} == {"inputs", "compiler"}
    assert cache.explain(left, left) == []


def test_without_a_history_there_is_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir(parents=True)
    assert (cache.events(), cache.runs(), cache.misses(), cache.totals()) == ([], [], [], cache.Counts())
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH")
    with pytest.raises(NoDirectory, match="TF_RECIPE_CACHE_PATH"):
        cache.events()


def test_a_run_that_was_killed_has_no_counters(root: Path) -> None:
    recipes = RecipeCache()
    assert recipes.lookup(_key(8)) is None
    recipes._journal.flush(recipes._disk)
    (run,) = cache.runs()
    assert run.counts is None and run.count("miss") == 1
