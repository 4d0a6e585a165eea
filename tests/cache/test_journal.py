"""The journal tells after the run what happened, and never stands in anybody's way."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.cache import journal
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.journal import Event, Journal, read
from habana_tf.cache.key import Key
from habana_tf.cache.reader import VERSION, Options
from tests.child import environment


@pytest.fixture
def store(root: Path) -> Store:
    return Store(str(root))


@pytest.fixture
def file(root: Path) -> Path:
    return root / VERSION / "journal.jsonl"


def test_events_are_read_as_written(store: Store, file: Path) -> None:
    events = Journal()
    assert not events.add("hit", "dense", "ab" * 32, 0.25)
    assert not file.exists()
    events.flush(store, {"disk_hits": 1})
    hit, end = read(store)
    assert (hit.event, hit.name, hit.digest, hit.seconds) == ("hit", "dense", "ab" * 32, 0.25)
    assert (end.event, dict(end.counts), end.run) == ("end", {"disk_hits": 1}, hit.run)
    assert abs(hit.time - time.time()) < 60
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_miss_names_the_nearest_entry_that_was_there(store: Store, make_entry: Callable[..., Entry]) -> None:
    entry = make_entry(seed=1)
    store.write(Entry({**entry.header, "created": time.time() - 1}, entry.sections))
    parts = [("shapes", [[64, 784]]) if part.name == "shapes" else (part.name, part.value) for part in entry.key.parts]
    missed = Key.of(parts)
    events = Journal()
    events.add("miss", "dense_relu", missed.digest, missed=missed)
    made_for_it = {**entry.header, "digest": missed.digest, "key": missed.manifest(), "created": time.time() + 1}
    store.write(Entry(made_for_it, {}))
    events.flush(store)
    (miss,) = read(store)
    assert (miss.nearest, miss.differs) == (entry.digest, ("shapes",))


def test_in_a_large_cache_the_same_cluster_is_looked_at_first(
    store: Store, make_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MOST_READ", 1)
    for seed in range(8):
        entry = make_entry(name="dense/relu" if seed == 5 else f"c{seed}", seed=seed)
        store.write(Entry({**entry.header, "created": time.time() - 1}, entry.sections))
    missed = make_entry(seed=9)
    events = Journal()
    events.add("miss", "dense/relu", missed.digest, missed=missed.key)
    events.flush(store)
    assert [event.nearest for event in read(store)] == [make_entry(seed=5).digest]
    assert len(events._known) == 1


def test_the_first_recipe_has_nothing_near(store: Store, entry: Entry) -> None:
    events = Journal()
    events.add("miss", "dense_relu", entry.digest, missed=entry.key)
    events.flush(store)
    assert [(e.nearest, e.differs) for e in read(store)] == [(None, ())]


def test_flushing_is_due_after_a_batch() -> None:
    events = Journal()
    due = [events.add("hit") for _ in range(journal.BATCH)]
    assert due == [False] * (journal.BATCH - 1) + [True]


def test_torn_lines_spoil_no_others(store: Store, file: Path) -> None:
    Journal().flush(store, {"a": 1})
    whole = file.read_bytes()
    file.write_bytes(whole + whole.strip()[:20])  # a process died in the middle of a line
    Journal().flush(store, {"b": 2})
    with file.open("ab") as out:
        out.write(b"\xff\xfe[1]\n[]\n{}\nnull\n" + b"[" * 100_000 + b'\n{"t":1,"r":"x","e":"hit","d":5}\n')
        out.write(b'{"t":1,"r":"x","e":"hit","near":5}\n{"t":1,"r":"x","e":"end","c":{"misses":"x"}}\n')
    assert [dict(event.counts) for event in read(store)] == [{"a": 1}, {"b": 2}]


def test_it_is_bounded(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_BYTES", 4000)
    for n in range(200):
        Journal().flush(store, {"n": n})
    older = file.with_name("journal.1.jsonl")
    assert older.stat().st_size <= 4200
    assert not file.exists() or file.stat().st_size <= 4200
    numbers = [event.counts["n"] for event in read(store)]
    assert len(numbers) > 20 and sorted(numbers) == list(range(200 - len(numbers), 200)), "the latest, without a gap"


HUGE = 1 << 40
READERS = """
import resource, sys
from habana_tf.cli.main import main
resource.setrlimit(resource.RLIMIT_AS, (600 << 20,) * 2)
sys.exit(main(sys.argv[1:]))
"""


def test_a_huge_file_costs_no_memory(store: Store, file: Path, root: Path) -> None:
    """Sparse, as a crash or a person leaves it; and of one line. What was written last is read, and the commands that
    read it end well in a small part of its size."""
    Journal().flush(store, {"disk_hits": 1})
    os.truncate(file, HUGE)
    Journal().flush(store, {"disk_hits": 2})  # and becomes the older file
    Journal().flush(store, {"disk_hits": 3})
    assert file.with_name("journal.1.jsonl").stat().st_size > HUGE and file.stat().st_size < 1000
    assert [dict(event.counts) for event in read(store)] == [{"disk_hits": 2}, {"disk_hits": 3}]
    with file.open("ab") as out:
        out.write(b"x" * (1 << 20))
        out.truncate(HUGE)
    for command in (["recipes", "stats", "--path"], ["recipes", "explain", "--path"], ["check", "--recipes"]):
        words = [sys.executable, "-c", READERS, *command, str(root)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment())
        assert "Traceback" not in done.stderr and done.returncode in (0, 1), done.stderr
        assert (f"has {HUGE} bytes" in done.stderr) == (command[0] != "check")  # which reads no journal


def test_a_line_in_two_pieces_is_one(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20):
        Journal().flush(store, {"n": n})
    monkeypatch.setattr(journal, "_PIECE", 7)
    assert [event.counts["n"] for event in read(store)] == list(range(20))
    monkeypatch.setattr(journal, "_MOST_READ_BYTES", file.stat().st_size // 2)
    numbers = [event.counts["n"] for event in read(store)]
    assert numbers == list(range(20))[-len(numbers) :] and 8 <= len(numbers) <= 10


def test_what_waits_is_bounded() -> None:
    events = Journal()
    for _ in range(10_000):
        events.add("hit")
    assert len(events._pending) == journal._MOST_PENDING


@pytest.mark.parametrize("name", ["open", "write", "mkdir", "rename", "fstat"])
def test_trouble_with_the_disk_is_no_error(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        Journal().flush(store, {"n": 1})


def test_in_mode_ro_nothing_is_written(root: Path) -> None:
    Journal().flush(Store(str(root), options=Options("ro")), {"n": 1})
    assert not root.exists()


def test_a_link_is_not_written_through(store: Store, file: Path, tmp_path: Path) -> None:
    Journal().flush(store, {"n": 1})
    file.unlink()
    (tmp_path / "precious").write_text("")
    file.symlink_to(tmp_path / "precious")
    Journal().flush(store, {"n": 2})
    assert (tmp_path / "precious").read_text() == ""


def test_threads_lose_nothing(store: Store) -> None:
    events = Journal()

    def work() -> None:
        for _ in range(100):
            if events.add("hit"):
                events.flush(store)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events.flush(store)
    assert len(read(store)) == 800


def test_a_forked_child_writes_none_of_its_parents_events(store: Store) -> None:
    """As a library of the user may fork it."""
    code = (
        "import os, sys\n"
        "from habana_tf.cache.journal import Journal\n"
        "from habana_tf.cache.disk import Store\n"
        "store, events = Store(sys.argv[1]), Journal()\n"
        "events.add('hit', 'parent')\n"
        "child = os.fork()\n"
        "if not child: events.add('hit', 'child')\n"
        "events.flush(store)\n"
        "if child: os.waitpid(child, 0)\n"
    )
    subprocess.run([sys.executable, "-c", code, store.root], env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    events = read(store)
    assert sorted(event.name for event in events) == ["child", "parent"]
    assert len({event.run for event in events}) == 2


def test_the_line_is_json() -> None:
    data = json.loads(Event(1.23456, "host-1-a", "miss", "c", "ab", 0.5, "cd", ("inputs",)).line())
    assert data == {"t": 1.235, "r": "host-1-a", "e": "miss", "n": "c", "k": "ab", "s": 0.5, "near": "cd",
                    "d": ["inputs"]}  # fmt: skip
