"""From clusters and signatures to programs: what shares a recipe, what is interpreted, what is refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from habana_tf import cache
from habana_tf._native import _bridge
from habana_tf.cache import process_cache
from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.cluster.cluster import Arg
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import target
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.dtypes import from_label
from habana_tf.resolver import provenance, ranged, recipes, recompilations
from habana_tf.resolver.fallback import FallbackForbidden
from habana_tf.resolver.recipes import CompileForbidden
from habana_tf.resolver.resolve import resolve
from habana_tf.tensorflow_clusters.cluster import parse, parsed
from habana_tf.tensorflow_clusters.writer import ClusterWriter, of_node


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No recipe is known at the start of a test, nor does one come with the package."""
    monkeypatch.setenv("HABANA_SIM_PACKAGED_RECIPES", "0")
    _forget(monkeypatch)
    yield


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes.reset()
    ranged.reset()
    monkeypatch.setattr(process_cache, "CACHE", RecipeCache())
    recompilations.reset()


def _cluster(op: str, name: str = "node", inputs: int = 2, **attrs: Any) -> bytes:
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


def _run(data: bytes, *arrays: Any) -> list[Any]:
    """Resolves for these inputs (those that fix a shape by value) and runs."""
    fixed = parse(data).fixed_inputs()
    signature = [
        (from_label(a.dtype.name).number, a.shape, a.tobytes() if k in fixed else None) for k, a in enumerate(arrays)
    ]
    return _bridge.run_program(resolve(parse(data), signature), list(arrays))


def _floats(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_one_recipe_serves_all_shapes_and_names_of_an_elementwise_op() -> None:
    for k, shape in enumerate([(3, 5), (7,), (2, 3, 4, 5), (1000, 17)]):
        x = _floats(*shape)
        (out,) = _run(_cluster("AddV2", f"add_{k}", T="float32"), x, x)
        np.testing.assert_array_equal(out.view(np.float32).reshape(shape), x + x)
    assert cache.stats().counts().compiled == 1


def test_broadcasting_patterns_have_recipes_of_their_own() -> None:
    data = _cluster("Mul", T="float32")
    for shape in [(4, 6), (9, 2)]:
        x, y = _floats(*shape), _floats(shape[1])
        (out,) = _run(data, x, y)
        np.testing.assert_array_equal(out.view(np.float32).reshape(shape), x * y)
    assert cache.stats().counts().compiled == 1
    _run(data, _floats(4, 6), _floats(4, 6))
    assert cache.stats().counts().compiled == 2


def test_empty_tensors_work() -> None:
    (out,) = _run(_cluster("AddV2", T="float32"), _floats(0, 3), _floats(3))
    assert out.size == 0


def test_a_second_process_would_compile_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    data = _cluster("MatMul", T="float32", transpose_a=False, transpose_b=True)
    x, y = _floats(33, 20), _floats(9, 20)
    first = _run(data, x, y)
    _forget(monkeypatch)
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    second = _run(data, x, y)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_allclose(second[0].view(np.float32).reshape(33, 9), x @ y.T, rtol=1e-5, atol=1e-5)
    assert (cache.stats().counts().compiled, cache.stats().counts().disk_hits) == (0, 1)
    with pytest.raises(CompileForbidden, match="TF_RECIPE_CACHE_PATH"):
        _run(_cluster("Tanh", T="float32"), x)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code generator that takes nothing."""

    def unfit(*_: object) -> None:
        raise Unfit("no kernel for it")

    monkeypatch.setattr(recipes, "compile_program", unfit)


@pytest.mark.usefixtures("no_kernel", "falling_back")
def test_what_cannot_be_compiled_is_interpreted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    data = _cluster("TopKV2", T="float32", sorted=True, Tk="int32", index_type="int32")
    x = _floats(4, 9)
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        values, places = _run(data, x, np.array(3, np.int32))
    np.testing.assert_array_equal(values.view(np.float32).reshape(4, 3), -np.sort(-x, 1)[:, :3])
    np.testing.assert_array_equal(places.view(np.int32).reshape(4, 3), np.argsort(-x, 1, "stable")[:, :3])
    assert "TopKV2" in caplog.text and "interpreted" in caplog.text


@pytest.mark.usefixtures("falling_back")
@pytest.mark.parametrize("fallback", ["allow", "forbid"])
def test_a_second_process_does_not_try_again(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, no_kernel: None, caplog: pytest.LogCaptureFixture, fallback: str
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    data = _cluster("TopKV2", T="float32", sorted=True, Tk="int32", index_type="int32")
    _run(data, _floats(4, 9), np.array(3, np.int32))
    _forget(monkeypatch)
    monkeypatch.setattr(recipes, "compile_program", None)
    monkeypatch.setenv("TF_CPU_RUNTIME_FALLBACK", fallback)
    if fallback == "forbid":
        with pytest.raises(FallbackForbidden, match="no kernel for it"):
            _run(data, _floats(4, 9), np.array(3, np.int32))
    else:
        with caplog.at_level(logging.WARNING, logger="habana_tf"):
            values, _ = _run(data, _floats(4, 9), np.array(3, np.int32))
        assert values.view(np.float32).reshape(4, 3).shape == (4, 3)
        assert "no kernel for it" in caplog.text
    assert cache.stats().counts().known_failures == 1


@pytest.mark.usefixtures("falling_back")
@pytest.mark.parametrize("error", [RuntimeError, RecursionError, KeyError])
def test_a_defect_of_the_compiler_interprets_the_cluster_and_is_not_remembered(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    compile_program = recipes.compile_program

    def fail(*_: object) -> None:
        raise error("a defect")

    monkeypatch.setattr(recipes, "compile_program", fail)
    for _ in range(2):
        (out,) = _run(_cluster("AddV2", T="float32"), _floats(3), _floats(3))
        np.testing.assert_array_equal(out.view(np.float32), 2 * _floats(3))
    assert f"AddV2 cannot be compiled ({error.__name__}: " in caplog.text and "a defect" in caplog.text
    assert not list(tmp_path.rglob("*.recipe"))
    monkeypatch.setattr(recipes, "compile_program", compile_program)
    _run(_cluster("AddV2", T="float32"), _floats(3), _floats(3))
    assert len(list(tmp_path.rglob("*.recipe"))) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, TimeoutError])
def test_what_says_nothing_about_the_cluster_is_not_remembered(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    compile_program = recipes.compile_program

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(recipes, "compile_program", fail)
    with pytest.raises(error):
        _run(_cluster("AddV2", T="float32"), _floats(3), _floats(3))
    assert not list(tmp_path.rglob("*.recipe"))
    monkeypatch.setattr(recipes, "compile_program", compile_program)
    (out,) = _run(_cluster("AddV2", T="float32"), _floats(3), _floats(3))
    np.testing.assert_array_equal(out.view(np.float32), 2 * _floats(3))


@pytest.mark.usefixtures("no_kernel")
def test_interpretation_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPU_RUNTIME_FALLBACK", "forbid")
    data = _cluster("TopKV2", T="float32", sorted=True, Tk="int32", index_type="int32")
    with pytest.raises(FallbackForbidden, match="TopKV2"):
        _run(data, _floats(4, 9), np.array(3, np.int32))


def test_arguments_that_an_op_refuses_are_refused_in_the_words_of_tensorflow() -> None:
    data = _cluster("MatMul", "layer/mm", T="float32", transpose_a=False, transpose_b=False)
    with pytest.raises(LoweringError, match=r"In\[0\]: \[3,4\], In\[1\]: \[5,6\]"):
        _run(data, _floats(3, 4), _floats(5, 6))


def test_the_instruction_set_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _cluster("AddV2", T="float32")
    _run(data, _floats(3), _floats(3))
    monkeypatch.setenv("HABANA_SIM_ISA", "portable")
    _run(data, _floats(3), _floats(3))
    assert cache.stats().counts().compiled == 2


@pytest.mark.skipif(not target().multiplies_bf16_pairs, reason="this CPU has one way only")
@pytest.mark.parametrize("several", [False, True], ids=["one op", "several"])
def test_how_bf16_is_multiplied_is_in_the_keys_of_bf16(monkeypatch: pytest.MonkeyPatch, several: bool) -> None:
    """And in no other's: two ways of it share all recipes of fp32."""
    for dtype, compiled in (("float32", 1), ("bfloat16", 2)):
        _forget(monkeypatch)
        for way in ("dot", "widen"):
            monkeypatch.setenv("HABANA_SIM_BF16_PRODUCTS", way)
            data = _two_products(dtype) if several else _cluster("MatMul", T=dtype)
            ones = np.ones((32, 32), from_label(dtype).numpy)
            (out,) = _run(data, ones, ones)
            assert (out.view(ones.dtype) == (1024 if several else 32)).all()
        assert cache.stats().counts().compiled == compiled


def _two_products(dtype: str) -> bytes:
    """a @ b @ b, as a cluster."""
    from tensorflow.core.framework import node_def_pb2

    writer, kind = ClusterWriter("products"), from_label(dtype)
    a, b = (writer.arg(Arg(kind, False, name)) for name in "ab")
    for name in ("first", "second"):
        node = node_def_pb2.NodeDef(op="MatMul", name=name)
        node.attr["T"].type = kind.number
        for side in ("transpose_a", "transpose_b"):
            node.attr[side].b = False
        a = writer.node(node, [a, b])
    writer.result(a, Arg(kind, False))
    return writer.bytes()


# -- recipes for a range ------------------------------------------------------------------------------------


def _chain(*ops: tuple[str, int, dict[str, Any]], variables: bool = False) -> bytes:
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


def _dense(n: int) -> None:
    x, w, b = _floats(n, 20), _floats(20, 9), _floats(9)
    (out,) = _run(_chain(*DENSE), x, w, b)
    np.testing.assert_allclose(out.view(np.float32).reshape(n, 9), np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-5)


def _met() -> list[tuple[str, dict[str, int]]]:
    (chain,) = recompilations.recompilation_report().clusters
    return [(m.recipe, dict(m.range)) for m in chain.met]


def test_a_size_that_changed_is_compiled_for_a_range() -> None:
    for n in (64, 29, 52, 1, 100):
        _dense(n)
    assert _met() == [
        ("compiled", {}), ("compiled", {"s0": 29}), ("known", {"s0": 52}), ("known", {"s0": 1}), ("known", {"s0": 100}),
    ]  # fmt: skip


def test_without_dynamic_shapes_each_size_has_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_DYNAMIC_SHAPES", "0")
    for n in (64, 29, 52):
        _dense(n)
    assert _met() == [("compiled", {})] * 3


def test_an_empty_batch_is_no_member_of_a_range() -> None:
    for n in (64, 29, 0):
        _dense(n)
    assert _met() == [("compiled", {}), ("compiled", {"s0": 29}), ("compiled", {})]


def test_recipes_for_a_range_are_found_by_a_second_process(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    for n in (64, 29):
        _dense(n)
    _forget(monkeypatch)
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    for n in (64, 30, 7):
        _dense(n)
    assert _met() == [("cache", {}), ("cache", {"s0": 30}), ("known", {"s0": 7})]


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
    data, x, size = _sliced(), _floats(8, 8), np.array([4, 4], np.int32)

    def cut(i: int, j: int) -> None:
        (out,) = _run(data, x, np.array([i, j], np.int32), size)
        np.testing.assert_array_equal(out.view(np.float32).reshape(4, 4), np.maximum(x[i : i + 4, j : j + 4], 0))

    cut(1, 2)
    cut(3, 0)
    assert _met() == [("compiled", {}), ("known", {})]
    counts = cache.stats().counts()
    assert (counts.misses, counts.compiled, counts.shared) == (2, 1, 1)
    for first in ((1, 2), (4, 4)):  # the key that has the recipe, and one that nobody asked for yet
        _forget(monkeypatch)
        monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
        cut(*first)
        cut(3, 0)
        assert _met() == [("cache", {}), ("known", {})]
    assert len(list((tmp_path / "recipes").rglob("*.recipe"))) == 1


def test_what_needs_a_number_gets_a_recipe_per_shape_and_says_why() -> None:
    data = _chain(("Relu", 0, {}), ("Squeeze", 0, {}))  # whether an axis goes depends on its size
    for n in (4, 5, 1, 7):
        x = _floats(n, 3)
        (out,) = _run(data, x)
        np.testing.assert_array_equal(out.view(np.float32), np.maximum(x, 0).reshape(-1))
    assert _met() == [("compiled", {}), ("compiled", {"s0": 5}), ("compiled", {}), ("known", {"s0": 7})]
    (chain,) = recompilations.recompilation_report().clusters
    assert "Squeeze 'squeeze': whether an axis is of size 1" in chain.met[2].reason


@pytest.mark.usefixtures("propagating")
def test_a_long_compilation_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than a second: the clock is moved on while a program is compiled."""
    caplog.set_level(logging.INFO, logger="habana_tf")
    x = np.ones([3, 5], np.float32)
    _run(_cluster("Add", T="float32"), x, x)
    assert not caplog.records
    now, compile_program = [0.0], recipes.compile_program

    def slowly(*arguments: Any) -> Any:
        now[0] = 2.34
        return compile_program(*arguments)

    monkeypatch.setattr(recipes, "compile_program", slowly)
    monkeypatch.setattr(recipes.time, "perf_counter", lambda: now[0])
    _run(_cluster("Sub", T="float32"), x, x)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "(1 ops, float32[" in record.getMessage() and record.getMessage().endswith("in 2.3 s")


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
        x = _floats(n)
        (out,) = _run(data, x, *(np.array([k], np.int32) for k in (0, 3, 1)))
        np.testing.assert_array_equal(out.view(np.float32), np.maximum(x, 0)[:3])

    for n in (9, 14, 3, 2, 1):
        cut(n)
    assert [(how, dims.get("s0")) for how, dims in _met()] == [
        ("compiled", None), ("compiled", 14), ("known", 3), ("compiled", 2), ("known", 1),
    ]  # fmt: skip
    _forget(monkeypatch)  # another process meets them the other way round
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    for n in (9, 2, 14):
        cut(n)
    assert [how for how, _ in _met()] == ["cache", "cache", "known"]


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
        _dense(64)
        assert not caplog.text
        _dense(29)
    assert "a defect of habana_tf" in caplog.text and "no such thing" in caplog.text
    assert _met() == [("compiled", {})] * 2


def test_models_that_differ_in_width_cost_a_recipe_each_and_one_for_their_batches() -> None:
    """A range over their widths is not tried, though there were many: it would be slower code, or none."""
    data = _chain(*DENSE, variables=True)
    for width in range(8, 14):
        for n in (64, 64, 29, 7):
            x, w, b = _floats(n, 20), _floats(20, width), _floats(width)
            (out,) = _run(data, x, w, b)
            want = np.maximum(x @ w + b, 0)
            np.testing.assert_allclose(out.view(np.float32).reshape(n, width), want, rtol=1e-5, atol=1e-5)
    assert _met() == [("compiled", {}), ("compiled", {"s0": 29}), ("known", {"s0": 7})] * 6
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
    data = _chain(*DENSE)
    for n, width in [(n, width) for width in range(8, 13) for n in (64, 29, 7)]:
        _run(data, _floats(n, 20), _floats(20, width), _floats(width))
    assert len(tried) == 2
    assert _met() == [("compiled", {})] * 15
    (chain,) = recompilations.recompilation_report().clusters
    assert chain.met[1].reason == "not for a range: a number is needed"
    assert {m.reason for m in chain.met[1:]} == {
        "not for a range: a number is needed", "not for a range: 2 guesses were tried in vain",
    }  # fmt: skip


def test_the_ranges_of_a_cluster_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "MOST_FORMS", 2)
    data = _chain(*DENSE, variables=True)

    def met(width: int) -> list[str]:
        for n in (64, 29, 7):
            _run(data, _floats(n, 20), _floats(20, width), _floats(width))
        return [how for how, _ in _met()[-3:]]

    for width in (8, 9, 10, 8):  # the recipe of a range that was forgotten is found again
        met(width)
    assert cache.stats().counts().compiled == 6
    ranges = ranged.ranges_of(json.dumps(parsed(data).computed()))
    assert len(ranges.forms) == 2


def test_a_size_of_0_does_not_end_a_range() -> None:
    for n in (64, 0, 29, 52):
        _dense(n)
    assert _met() == [("compiled", {}), ("compiled", {}), ("compiled", {"s0": 29}), ("known", {"s0": 52})]
