"""The nearest entry is one of the same cluster if there is one, and what differs is named in the key's order."""

from __future__ import annotations

from habana_tf.cache.key import Key
from habana_tf.cache.nearest import Candidate, nearest


def _key(cluster: str = "c", shape: int = 8, compiler: str = "1", **more: str) -> Key:
    return Key.of([("cluster", cluster), ("inputs", [[shape]]), ("compiler", compiler), *more.items()])


def _candidate(key: Key, name: str, created: float = 1.0) -> Candidate:
    return Candidate.of(key, name, created)


def test_the_same_cluster_is_nearer_than_fewer_differences() -> None:
    there = [_candidate(_key("d"), "other cluster"), _candidate(_key(shape=9, compiler="2"), "same cluster")]
    found = nearest(_key(), there)
    assert found is not None and found.name == "same cluster"
    assert found.differs(_key()) == ["inputs", "compiler"]


def test_then_fewer_differences_and_then_the_later() -> None:
    far, near = _candidate(_key(shape=9, compiler="2"), "far", 9.0), _candidate(_key(shape=9), "near")
    later = _candidate(_key(shape=10), "later", 2.0)
    assert nearest(_key(), [far, near]) is near
    assert nearest(_key(), [near, later, far]) is later


def test_a_part_that_one_side_lacks_differs() -> None:
    more = _key(isa="avx2")
    assert _candidate(more, "more").differs(_key()) == ["isa"]
    assert _candidate(_key(), "less").differs(more) == ["isa"]
    same = _candidate(_key(), "same")
    assert nearest(_key(), [_candidate(more, "more"), same]) is same
    assert same.differs(_key()) == []


def test_nothing_in_common_is_not_near() -> None:
    assert nearest(_key(), []) is None
    assert nearest(_key(), [_candidate(_key("d", 9, "2"), "stranger")]) is None
