"""Sizes that change: which get a recipe for a range, which one for each, and what is kept of them."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest

from habana_tf import cache
from habana_tf.cluster.cluster import Arg
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.dtypes import from_label
from habana_tf.resolver import provenance, ranged, recompilations
from habana_tf.tensorflow.clusters.cluster import parsed
from habana_tf.tensorflow.clusters.writer import ClusterWriter
from tests.resolver.resolving import DENSE, chained, dense, floats, forget, recipes_met, resolve_and_run

pytestmark = pytest.mark.usefixtures("fresh")


def test_a_size_that_changed_is_compiled_for_a_range() -> None:
    for n in (64, 29, 52, 1, 100):
        dense(n)
    assert recipes_met() == [
        ("compiled", {}), ("compiled", {"s0": 29}), ("known", {"s0": 52}), ("known", {"s0": 1}), ("known", {"s0": 100}),
    ]  # fmt: skip


def test_without_dynamic_shapes_each_size_has_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_DYNAMIC_SHAPES", "0")
    for n in (64, 29, 52):
        dense(n)
    assert recipes_met() == [("compiled", {})] * 3


def test_an_empty_batch_is_no_member_of_a_range() -> None:
    for n in (64, 29, 0):
        dense(n)
    assert recipes_met() == [("compiled", {}), ("compiled", {"s0": 29}), ("compiled", {})]


def test_recipes_for_a_range_are_found_by_a_second_process(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    for n in (64, 29):
        dense(n)
    forget(monkeypatch)
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    for n in (64, 30, 7):
        dense(n)
    assert recipes_met() == [("cache", {}), ("cache", {"s0": 30}), ("known", {"s0": 7})]


def _sliced() -> bytes:
    """relu(slice(x, begin, size)) of a matrix."""
    from tensorflow.core.framework import node_def_pb2

    writer = ClusterWriter("sliced")
    f32, i32 = from_label("float32"), from_label("int32")
    inputs = [writer.arg(Arg(t, False, n)) for t, n in ((f32, "x"), (i32, "begin"), (i32, "size"))]
    cut, relu = (node_def_pb2.NodeDef(op=op, name=op.lower()) for op in ("Slice", "Relu"))
    cut.attr["Index"].type = i32.number
    for node in (cut, relu):
        node.attr["T"].type = f32.number
    writer.result(writer.node(relu, [writer.node(cut, inputs)]), Arg(f32, False))
    return writer.bytes()


def test_another_key_of_a_program_compiles_nothing_in_a_second_process_either(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    monkeypatch.setenv("TF_ENABLE_DYNAMIC_SHAPES", "0")
    data, x, size = _sliced(), floats(8, 8), np.array([4, 4], np.int32)

    def cut(i: int, j: int) -> None:
        (out,) = resolve_and_run(data, x, np.array([i, j], np.int32), size)
        np.testing.assert_array_equal(out.view(np.float32).reshape(4, 4), np.maximum(x[i : i + 4, j : j + 4], 0))

    cut(1, 2)
    cut(3, 0)
    assert recipes_met() == [("compiled", {}), ("known", {})]
    counts = cache.stats().counts()
    assert (counts.misses, counts.compiled, counts.shared) == (2, 1, 1)
    for first in ((1, 2), (4, 4)):  # the key that has the recipe, and one that nobody asked for yet
        forget(monkeypatch)
        monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
        cut(*first)
        cut(3, 0)
        assert recipes_met() == [("cache", {}), ("known", {})]
    assert len(list((tmp_path / "recipes").rglob("*.recipe"))) == 1


def test_what_needs_a_number_gets_a_recipe_per_shape_and_says_why() -> None:
    data = chained(("Relu", 0, {}), ("Squeeze", 0, {}))  # whether an axis goes depends on its size
    for n in (4, 5, 1, 7):
        x = floats(n, 3)
        (out,) = resolve_and_run(data, x)
        np.testing.assert_array_equal(out.view(np.float32), np.maximum(x, 0).reshape(-1))
    assert recipes_met() == [("compiled", {}), ("compiled", {"s0": 5}), ("compiled", {}), ("known", {"s0": 7})]
    (chain,) = recompilations.recompilation_report().clusters
    assert "Squeeze 'squeeze': whether an axis is of size 1" in chain.met[2].reason


def test_sizes_for_which_something_else_holds_have_a_range_of_their_own(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first three of a row, or all there are: the comparison is a condition of the recipe, in the cache too."""
    from tensorflow.core.framework import node_def_pb2

    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    f32, i32 = from_label("float32"), from_label("int32")
    writer = ClusterWriter("cut")
    row = writer.arg(Arg(f32, False, "x"))
    bounds = [writer.arg(Arg(i32, True, name)) for name in ("begin", "end", "strides")]
    relu = node_def_pb2.NodeDef(op="Relu", name="relu")
    relu.attr["T"].type = f32.number
    node = node_def_pb2.NodeDef(op="StridedSlice", name="first")
    node.attr["T"].type, node.attr["Index"].type = f32.number, i32.number
    writer.result(writer.node(node, [writer.node(relu, [row]), *bounds]), Arg(f32, False))
    data = writer.bytes()

    def cut(n: int) -> None:
        x = floats(n)
        (out,) = resolve_and_run(data, x, *(np.array([k], np.int32) for k in (0, 3, 1)))
        np.testing.assert_array_equal(out.view(np.float32), np.maximum(x, 0)[:3])

    for n in (9, 14, 3, 2, 1):
        cut(n)
    assert [(how, dims.get("s0")) for how, dims in recipes_met()] == [
        ("compiled", None), ("compiled", 14), ("known", 3), ("compiled", 2), ("known", 1),
    ]  # fmt: skip
    forget(monkeypatch)  # another process meets them the other way round
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    for n in (9, 2, 14):
        cut(n)
    assert [how for how, _ in recipes_met()] == ["cache", "cache", "known"]


def test_a_mistake_in_the_compiler_is_not_taken_for_a_size_that_must_be_a_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lower = provenance.lower

    def mistaken(cluster: Any, shapes: Any, values: Any, dims: Any, *rest: Any) -> Any:
        if dims:
            raise AttributeError("no such thing")
        return lower(cluster, shapes, values, dims, *rest)

    monkeypatch.setattr(provenance, "lower", mistaken)
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        dense(64)
        assert not caplog.text
        dense(29)
    assert "a defect of habana_tf" in caplog.text and "no such thing" in caplog.text
    assert recipes_met() == [("compiled", {})] * 2


def test_models_that_differ_in_width_cost_a_recipe_each_and_one_for_their_batches() -> None:
    """A range over their widths is not tried, though there were many: it would be slower code, or none."""
    data = chained(*DENSE, variables=True)
    for width in range(8, 14):
        for n in (64, 64, 29, 7):
            x, w, b = floats(n, 20), floats(20, width), floats(width)
            (out,) = resolve_and_run(data, x, w, b)
            want = np.maximum(x @ w + b, 0)
            np.testing.assert_allclose(out.view(np.float32).reshape(n, width), want, rtol=1e-5, atol=1e-5)
    assert recipes_met() == [("compiled", {}), ("compiled", {"s0": 29}), ("known", {"s0": 7})] * 6
    (chain,) = recompilations.recompilation_report().clusters
    reasons = {m.reason for m in chain.met[3::3]}
    assert chain.met[0].reason == "" and reasons == {"another model of these ops: a variable's shape differs"}


def test_ranges_are_not_tried_in_vain_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "MOST_REFUSED", 2)
    lower, tried = provenance.lower, []

    def needing(cluster: Any, shapes: Any, values: Any, dims: Any, *rest: Any) -> Any:
        if dims:
            tried.append(dims)
            raise NeedsNumber("a number is needed")
        return lower(cluster, shapes, values, dims, *rest)

    monkeypatch.setattr(provenance, "lower", needing)
    data = chained(*DENSE)
    for n, width in [(n, width) for width in range(8, 13) for n in (64, 29, 7)]:
        resolve_and_run(data, floats(n, 20), floats(20, width), floats(width))
    assert len(tried) == 2
    assert recipes_met() == [("compiled", {})] * 15
    (chain,) = recompilations.recompilation_report().clusters
    assert chain.met[1].reason == "not for a range: a number is needed"
    assert {m.reason for m in chain.met[1:]} == {
        "not for a range: a number is needed", "not for a range: 2 guesses were tried in vain",
    }  # fmt: skip


def test_the_ranges_of_a_cluster_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "MOST_FORMS", 2)
    data = chained(*DENSE, variables=True)

    def met(width: int) -> list[str]:
        for n in (64, 29, 7):
            resolve_and_run(data, floats(n, 20), floats(20, width), floats(width))
        return [how for how, _ in recipes_met()[-3:]]

    for width in (8, 9, 10, 8):  # the recipe of a range that was forgotten is found again
        met(width)
    assert cache.stats().counts().compiled == 6
    ranges = ranged.ranges_of(json.dumps(parsed(data).computed()))
    assert len(ranges.forms) == 2


def test_a_size_of_0_does_not_end_a_range() -> None:
    for n in (64, 0, 29, 52):
        dense(n)
    assert recipes_met() == [("compiled", {}), ("compiled", {}), ("compiled", {"s0": 29}), ("known", {"s0": 52})]
