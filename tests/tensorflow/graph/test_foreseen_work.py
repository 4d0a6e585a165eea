"""Processes that help to compile start while TensorFlow still builds the graph, where they will be needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorflow.core.framework import graph_pb2, node_def_pb2

from habana_tf.cache import process_cache
from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.compiler import costs
from habana_tf.compiler.codegen import objects
from habana_tf.tensorflow.graph import foreseen_work
from habana_tf.tensorflow.graph.launch_nodes import LaunchNode

SMALL = LaunchNode("small", {"MatMul": costs.WORKER_PRODUCTS - 1, "Relu": 40}, 1, 1, node="n")
PRODUCTS = {"MatMul": costs.WORKER_PRODUCTS - 3, "Conv2DBackpropFilter": 2, "Einsum": 1}
LARGE = LaunchNode("large", PRODUCTS, 1, 1, node="n")


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of products that are told to the compiler."""
    told: list[int] = []
    monkeypatch.setattr(objects, "expect", told.append)
    yield told


def test_many_products_are_told(expected: list[int]) -> None:
    foreseen_work.announce([SMALL, LARGE])
    assert expected == [costs.WORKER_PRODUCTS]


def test_not_of_a_cluster_that_the_recipe_cache_has(
    expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path))
    process_cache.CACHE.store(Key.of([("inputs", "f32[2]")]), "other", {}, {}, 0.0)
    foreseen_work.announce([LARGE])
    assert expected == [costs.WORKER_PRODUCTS]
    process_cache.CACHE.store(Key.of([("inputs", "f32[3]")]), "large", {}, {}, 0.0)
    foreseen_work.announce([LARGE])
    assert expected == [costs.WORKER_PRODUCTS], "a warm start"
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "refresh")
    foreseen_work.announce([LARGE])
    assert expected == [costs.WORKER_PRODUCTS] * 2, "all of them are made anew"


def test_a_graph_is_told_where_no_cache_was_of_use(
    expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = [op for op, times in LARGE.ops.items() for _ in range(times)]
    graph = graph_pb2.GraphDef(node=[node_def_pb2.NodeDef(name=f"Conv2D_{k}", op=op) for k, op in enumerate(ops)])
    graph.node.add(name="MatMul", op="Relu", input=["Conv2D_0"])
    data = graph.SerializeToString()
    monkeypatch.setattr(process_cache, "CACHE", RecipeCache())
    foreseen_work.announce_graph(data)
    assert expected == [costs.WORKER_PRODUCTS], "without a cache"
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path))
    foreseen_work.announce_graph(data)
    assert expected == [costs.WORKER_PRODUCTS] * 2, "this one is empty"
    first, second = (Key.of([("inputs", f"f32[{n}]")]) for n in (2, 3))
    RecipeCache().store(second, "other", {}, {}, 0.0)
    foreseen_work.announce_graph(data)
    assert expected == [costs.WORKER_PRODUCTS] * 2, "of what it has nothing is known"
    with monkeypatch.context() as anew:
        anew.setenv("HABANA_SIM_CACHE_MODE", "refresh")
        foreseen_work.announce_graph(data)
    assert expected.pop() == costs.WORKER_PRODUCTS and len(expected) == 2, "all of it is made anew"
    assert process_cache.CACHE.lookup(first) is None
    foreseen_work.announce_graph(data)
    assert expected == [costs.WORKER_PRODUCTS] * 3, "it had nothing"
    assert process_cache.CACHE.lookup(second) is not None
    foreseen_work.announce_graph(data)
    assert expected == [costs.WORKER_PRODUCTS] * 3, "it had something"


def test_not_where_compiling_is_forbidden(expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    foreseen_work.announce([LARGE])
    foreseen_work.announce_graph(b"\x12\x06MatMul" * costs.WORKER_PRODUCTS)
    assert not expected
