"""Keys are equal exactly when every named part is, in every process, and differences have names."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.cache.key import Key, diff

PARTS = [("cluster", b"\x00\x01"), ("shapes", [[1, 2], [3]]), ("flags", {"b": True, "a": None}), ("f", 0.1)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_digest_is_pinned() -> None:
    """A change here makes every cache cold: change it on purpose only."""
    assert Key.of(PARTS).digest == "0a8526f79d6cc7eea36deb57f59a3ee152f2423a030a88291662864ad1058755"


def test_another_process_has_the_same_digest() -> None:
    code = f"from habana_tf.cache.key import Key; print(Key.of({PARTS!r}).digest)"
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == Key.of(PARTS).digest


@pytest.mark.parametrize(
    "other",
    [
        [("a", 1.0)],
        [("a", True)],
        [("a", "1")],
        [("a", [1])],
        [("a", None)],
        [("b", 1)],
        [("a", 1), ("b", 1)],
        [],
    ],
)
def test_types_names_and_counts_matter(other: list[tuple[str, object]]) -> None:
    assert Key.of([("a", 1)]).digest != Key.of(other).digest


def test_order_matters_and_mappings_have_none() -> None:
    assert Key.of([("a", 1), ("b", 2)]).digest != Key.of([("b", 2), ("a", 1)]).digest
    assert Key.of([("a", {"x": 1, "y": 2})]).digest == Key.of([("a", {"y": 2, "x": 1})]).digest


def test_neighbouring_values_do_not_run_together() -> None:
    assert Key.of([("a", "bc"), ("d", "")]).digest != Key.of([("a", "b"), ("d", "c")]).digest


def test_bytes_are_told_apart_and_kept_small() -> None:
    one, other = Key.of([("w", b"\0" * 10**6)]), Key.of([("w", b"\0" * 999_999 + b"\1")])
    assert one.digest != other.digest
    assert len(json.dumps(one.manifest())) < 200


@given(st.lists(st.tuples(st.text(), JSON), unique_by=lambda pair: pair[0], max_size=5))
def test_a_manifest_gives_the_key_back(pairs: list[tuple[str, object]]) -> None:
    key = Key.of(pairs)
    again = Key.of((str(name), value) for name, value in json.loads(json.dumps(key.manifest())))
    assert again.digest == key.digest
    assert diff(key, again) == []


def test_wrong_parts_are_errors() -> None:
    with pytest.raises(ValueError, match="twice: a"):
        Key.of([("a", 1), ("b", 1), ("a", 2)])
    with pytest.raises(TypeError, match="object cannot be part"):
        Key.of([("a", object())])
    with pytest.raises(TypeError, match="strings"):
        Key.of([("a", {1: 2})])
    with pytest.raises(ValueError, match="not JSON compliant"):
        _ = Key.of([("a", float("nan"))]).digest


def test_differences_have_names() -> None:
    left = Key.of([("cluster", b"x"), ("isa", "avx2"), ("n", 1), ("old", 0)])
    right = Key.of([("cluster", b"x"), ("isa", "avx512"), ("n", 1.0), ("new", 0)])
    found = diff(left, right)
    assert [difference.name for difference in found] == ["isa", "n", "old", "new"]
    assert found[0].left is not None and found[0].left.value == "avx2"
    assert found[0].right is not None and found[0].right.value == "avx512"
    assert found[2].right is None and found[3].left is None
