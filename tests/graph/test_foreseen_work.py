"""Processes that help to compile start while TensorFlow still builds the graph, where they will be needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from habana_tf.cache import process_cache
from habana_tf.cache.key import Key
from habana_tf.compiler.codegen import objects
from habana_tf.graph import foreseen_work
from habana_tf.graph.launch_nodes import LaunchNode

SMALL = LaunchNode("small", "n", {"MatMul": objects.LARGE - 1, "Relu": 40}, 1, 1)
LARGE = LaunchNode("large", "n", {"MatMul": objects.LARGE - 3, "Conv2DBackpropFilter": 2, "Einsum": 1}, 1, 1)


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of products that are told to the compiler."""
    told: list[int] = []
    monkeypatch.setattr(objects, "expect", told.append)
    yield told


def test_many_products_are_told(expected: list[int]) -> None:
    foreseen_work.announce([SMALL, LARGE])
    assert expected == [objects.LARGE]


def test_not_of_a_cluster_that_the_recipe_cache_has(
    expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path))
    process_cache.store(Key.of([("inputs", "f32[2]")]), "other", {}, {}, 0.0)
    foreseen_work.announce([LARGE])
    assert expected == [objects.LARGE]
    process_cache.store(Key.of([("inputs", "f32[3]")]), "large", {}, {}, 0.0)
    foreseen_work.announce([LARGE])
    assert expected == [objects.LARGE], "a warm start"
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "refresh")
    foreseen_work.announce([LARGE])
    assert expected == [objects.LARGE] * 2, "all of them are made anew"


def test_not_where_compiling_is_forbidden(expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    foreseen_work.announce([LARGE])
    assert not expected
