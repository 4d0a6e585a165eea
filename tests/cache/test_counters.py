"""Counters add up from many threads, and the report says what matters."""

from __future__ import annotations

import threading

import pytest

from habana_tf.cache.counters import Stats


def test_threads_do_not_lose_counts() -> None:
    stats = Stats()

    def work() -> None:
        for _ in range(1000):
            stats.add(disk_hits=1, saved_seconds=0.5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats.counts().disk_hits == 8000
    assert stats.to_json()["saved_seconds"] == 4000.0


def test_the_report() -> None:
    stats = Stats()
    assert stats.report() == "recipes: 0 compiled in 0.0 s"
    stats.add(compiled=2, compile_seconds=1.26)
    stats.add(disk_hits=3, saved_seconds=4.0)
    stats.add(shared=1, saved_seconds=0.5)
    assert stats.report() == "recipes: 2 compiled in 1.3 s, 4 from the cache, which saved 4.5 s"
    stats.add(corrupt=1, refused=2, failures=3)
    for words in ("1 damaged", "2 refused", "3 cache operations failed"):
        assert words in stats.report()


def test_an_unknown_counter_is_an_error() -> None:
    with pytest.raises(AttributeError):
        Stats().add(hits=1)
