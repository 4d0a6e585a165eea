"""Clusters of one op or a chain, resolved and run in the tests' own process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.cache import process_cache
from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.cluster.cluster import Arg
from habana_tf.ir.dtypes import from_label
from habana_tf.resolver import ranged, recipes, recompilations
from habana_tf.resolver.resolve import resolve
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.clusters.writer import ClusterWriter, of_node


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the process know no recipe and no shape, as a second one would."""
    recipes.reset()
    ranged.reset()
    monkeypatch.setattr(process_cache, "CACHE", RecipeCache())
    recompilations.reset()


def cluster_of(op: str, name: str = "node", inputs: int = 2, **attrs: Any) -> bytes:
    """A cluster of one op of so many inputs; attributes: a type by its name, a bool or an int."""
    from tensorflow.core.framework import node_def_pb2

    node = node_def_pb2.NodeDef(op=op, name=name, input=[f"x{k}" for k in range(inputs)])
    for key, value in attrs.items():
        if isinstance(value, str):
            node.attr[key].type = from_label(value).number
        elif isinstance(value, bool):
            node.attr[key].b = value
        else:
            node.attr[key].i = value
    return of_node(node.SerializeToString())


def resolve_and_run(data: bytes, *arrays: Any) -> list[Any]:
    """Resolves for these inputs (those that fix a shape by value) and runs."""
    fixed = parse(data).fixed_inputs()
    signature = [
        (from_label(a.dtype.name).number, a.shape, a.tobytes() if k in fixed else None) for k, a in enumerate(arrays)
    ]
    return _bridge.run_program(resolve(parse(data), signature), list(arrays))


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def chained(*ops: tuple[str, int, dict[str, Any]], variables: bool = False) -> bytes:
    """A cluster of ops in a row, each on the one before and `int` new inputs of rank 1 or 2; all are float32.

    variables: the new inputs are values of variables."""
    from tensorflow.core.framework import node_def_pb2

    writer = ClusterWriter("chain")
    f32 = from_label("float32")
    names = iter("xwbv")
    last = writer.arg(Arg(f32, False, next(names)))
    added = [[writer.arg(Arg(f32, False, next(names), variables)) for _ in range(n)] for _, n, _ in ops]
    for (op, _, attrs), more in zip(ops, added, strict=True):
        node = node_def_pb2.NodeDef(op=op, name=op.lower())
        node.attr["T"].type = f32.number
        for key, value in attrs.items():
            node.attr[key].b = value
        last = writer.node(node, [last, *more])
    writer.result(last, Arg(f32, False))
    return writer.bytes()


DENSE = (("MatMul", 1, {"transpose_a": False, "transpose_b": False}), ("BiasAdd", 1, {}), ("Relu", 0, {}))


def dense(n: int) -> None:
    """Resolves and runs a dense layer on a batch of n, and compares it with NumPy."""
    x, w, b = floats(n, 20), floats(20, 9), floats(9)
    (out,) = resolve_and_run(chained(*DENSE), x, w, b)
    np.testing.assert_allclose(out.view(np.float32).reshape(n, 9), np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-5)


def recipes_met() -> list[tuple[str, dict[str, int]]]:
    """Of each call of the only cluster there is: how it got its recipe, and the sizes that are a range's in it."""
    (chain,) = recompilations.recompilation_report().clusters
    return [(m.recipe, dict(m.range)) for m in chain.met]
