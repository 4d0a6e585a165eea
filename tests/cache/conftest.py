"""Recipes to cache, and a directory to cache them in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key


def _make_entry(name: str = "dense_relu", seed: int = 0, compile_seconds: float = 0.5) -> Entry:
    """Entries of different seeds have different keys and sections."""
    key = Key.of([("cluster", f"graph {seed}".encode()), ("shapes", [[128, 784]]), ("isa", "avx512")])
    header = {
        "name": name,
        "digest": key.digest,
        "key": key.manifest(),
        "created": 1700000000.0,
        "compile_seconds": compile_seconds,
        "tools": {"habana_tf": "0.1.0"},
        "ops": {"MatMul": 1, "Relu": 1},
        "inputs": [{"dtype": "float32", "shape": [128, 784]}],
        "outputs": [{"dtype": "float32", "shape": [128, 10]}],
    }
    code = bytes((seed + 7 * i * i) % 251 for i in range(3000))
    return Entry(header, {"object": code, "constants": b"\0" * 8192, "empty": b""})


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    return _make_entry


@pytest.fixture
def entry() -> Entry:
    return _make_entry()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory that does not exist yet."""
    path = tmp_path / "deep" / "recipes"
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path))
    return path


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
