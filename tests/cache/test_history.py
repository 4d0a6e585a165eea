"""After the run: what each run found, and why it missed what it missed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from habana_tf import cache
from habana_tf.cache import journal, recipe_cache
from habana_tf.cache.key import Key
from habana_tf.cache.reader import NoDirectory
from habana_tf.cache.recipe_cache import RecipeCache


def _key(shape: int, compiler: str = "1") -> Key:
    return Key.of([("cluster", "c"), ("inputs", [[shape]]), ("compiler", compiler)])


def _next_millisecond() -> None:
    """Returns when the journal, which knows no shorter times, tells what comes now from what was."""
    now = round(time.time(), 3)
    while round(time.time(), 3) <= now:
        time.sleep(0)


def _run(*keys: Key, fail: Key | None = None) -> RecipeCache:
    """A process that wants these recipes."""
    recipes = RecipeCache()
    for key in keys:
        if recipes.lookup(key, "dense") is None:
            recipes.store(key, "dense", {}, {"object": b"code"}, 0.5)
        _next_millisecond()
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
    assert first.ended and first.counts.compile_seconds == 0.5
    assert second.ended and (second.counts.disk_hits, second.counts.saved_seconds) == (1, 0.5)
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


def test_a_run_that_has_not_ended_is_known_by_its_events(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written a while after they happened, whether or not anything happens later; a process that is killed now has
    left them."""
    monkeypatch.setattr(journal, "SECONDS", 0.05)
    _run(_key(8))
    recipes = RecipeCache()
    assert recipes.lookup(_key(8)) is not None and recipes.lookup(_key(9)) is None
    recipes.store(_key(9), "dense", {}, {"object": b"code"}, 0.5)
    end = time.monotonic() + 60
    while len(cache.runs()) < 2 or cache.runs()[1].count("compiled") < 1:
        assert time.monotonic() < end
        time.sleep(0.02)
    run = cache.runs()[1]
    assert not run.ended
    assert (run.counts.disk_hits, run.counts.misses, run.counts.compiled) == (1, 1, 1)
    assert (run.counts.saved_seconds, run.counts.compile_seconds) == (0.5, 0.5)
    assert cache.totals().compiled == 2
    recipes.close()


@pytest.mark.parametrize("trouble", ["damaged", "removed", "refresh", "not believed", "failed"])
def test_what_was_missed_though_its_key_was_known(root: Path, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(_key(7), fail=_key(8) if trouble == "failed" else None)
    if trouble != "failed":
        _run(_key(8))
    (path,) = root.rglob(f"*{_key(8).digest}.recipe")
    if trouble == "damaged":
        path.write_bytes(path.read_bytes()[:-1])
    if trouble == "removed":
        path.unlink()
    if trouble == "refresh":
        monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "refresh")
    if trouble == "not believed":
        path.chmod(0o666)
    if trouble == "failed":
        monkeypatch.setattr(recipe_cache, "FAILURE_SECONDS", 0.0)
    _run(_key(8))
    (miss,) = cache.misses()
    wanted = {"damaged": "damaged", "removed": "gone: evicted", "refresh": "HABANA_SIM_CACHE_MODE=refresh",
              "not believed": "not believed", "failed": "could not be compiled before"}  # fmt: skip
    assert wanted[trouble] in str(miss) and miss.differences == ()


def test_what_another_key_has_the_recipe_of_is_not_compiled(root: Path) -> None:
    """As where a slice begins: it is in the key, since it may fix a shape, and not in the program."""
    program = "ab" * 32
    for key in (_key(8), _key(9)):
        recipes = RecipeCache()
        assert recipes.lookup(key, "dense") is None
        with recipes.compiling(key, program, "dense") as entry:
            if entry is None:
                recipes.store(key, "dense", {"program": program}, {"object": b"code"}, 0.5)
        recipes.close()
    first, second = cache.runs()
    assert (first.counts.compiled, first.counts.shared) == (1, 0)
    assert (second.counts.compiled, second.counts.shared, second.counts.saved_seconds) == (0, 1, 0.5)
    assert entry is not None and entry.sections["object"] == b"code" and entry.digest == _key(8).digest
    assert [miss.event.digest for miss in cache.misses()] == [_key(8).digest], "it missed nothing that was compiled"
    other = RecipeCache()
    with other.compiling(_key(10), "cd" * 32, "dense") as entry:
        assert entry is None
    with other.compiling(_key(10), program, "conv") as entry:
        assert entry is None, "files of other clusters are not opened"
