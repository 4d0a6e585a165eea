"""One recipe cache per process, asked by functions; it writes its history when the process ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from habana_tf import cache
from habana_tf.cache.key import Key

CODE = bytes(range(256)) * 8


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "recipes"
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(made))
    return made


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
    assert (after.misses - before.misses, after.disk_hits - before.disk_hits) == (1, 1)


def test_a_process_writes_its_history_when_it_ends(root: Path) -> None:
    code = (
        "from habana_tf import cache\n"
        "key = cache.Key.of([('cluster', 'c')])\n"
        "assert cache.lookup(key, 'dense') is None\n"
        "cache.store(key, 'dense', {}, {}, 0.5)\n"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "AssertionError" in done.stderr, "the second run finds it"
    assert [event.event for event in cache.events()] == ["miss", "compiled", "end", "hit", "end"]


def test_a_forked_child_that_ends_counts_nothing_again(root: Path) -> None:
    code = (
        "import os, sys\n"
        "from habana_tf import cache\n"
        "from habana_tf.cache import process_cache as process\n"
        "key = cache.Key.of([('cluster', 'c')])\n"
        "cache.lookup(key, 'dense')\n"
        "cache.store(key, 'dense', {}, {}, 0.5)\n"
        "process.CACHE._journal._lock.acquire()\n"  # as a thread may at this moment
        "child = os.fork()\n"
        "if not child: sys.exit(3)\n"
        "process.CACHE._journal._lock.release()\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3\n"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
    assert [event.event for event in cache.events()] == ["miss", "compiled", "end"]
    assert cache.totals().compiled == 1
