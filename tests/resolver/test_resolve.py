"""From clusters and signatures to programs: what shares a recipe, what is interpreted, what is refused."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from habana_tf import cache
from habana_tf.cluster.cluster import Arg
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import target
from habana_tf.ir.dtypes import from_label
from habana_tf.resolver import recipes
from habana_tf.resolver.fallback import FallbackForbidden
from habana_tf.resolver.recipes import CompileForbidden
from habana_tf.tensorflow.clusters.writer import ClusterWriter
from tests.hardware.bf16_ways import multiply_bf16_by
from tests.resolver.resolving import cluster_of, floats, forget, resolve_and_run

pytestmark = pytest.mark.usefixtures("fresh")


def test_one_recipe_serves_all_shapes_and_names_of_an_elementwise_op() -> None:
    for k, shape in enumerate([(3, 5), (7,), (2, 3, 4, 5), (1000, 17)]):
        x = floats(*shape)
        (out,) = resolve_and_run(cluster_of("AddV2", f"add_{k}", T="float32"), x, x)
        np.testing.assert_array_equal(out.view(np.float32).reshape(shape), x + x)
    assert cache.stats().counts().compiled == 1


def test_broadcasting_patterns_have_recipes_of_their_own() -> None:
    data = cluster_of("Mul", T="float32")
    for shape in [(4, 6), (9, 2)]:
        x, y = floats(*shape), floats(shape[1])
        (out,) = resolve_and_run(data, x, y)
        np.testing.assert_array_equal(out.view(np.float32).reshape(shape), x * y)
    assert cache.stats().counts().compiled == 1
    resolve_and_run(data, floats(4, 6), floats(4, 6))
    assert cache.stats().counts().compiled == 2


def test_empty_tensors_work() -> None:
    (out,) = resolve_and_run(cluster_of("AddV2", T="float32"), floats(0, 3), floats(3))
    assert out.size == 0


def test_a_second_process_would_compile_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    data = cluster_of("MatMul", T="float32", transpose_a=False, transpose_b=True)
    x, y = floats(33, 20), floats(9, 20)
    first = resolve_and_run(data, x, y)
    forget(monkeypatch)
    monkeypatch.setenv("HABANA_SIM_COMPILE", "forbid")
    second = resolve_and_run(data, x, y)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_allclose(second[0].view(np.float32).reshape(33, 9), x @ y.T, rtol=1e-5, atol=1e-5)
    assert (cache.stats().counts().compiled, cache.stats().counts().disk_hits) == (0, 1)
    with pytest.raises(CompileForbidden, match="TF_RECIPE_CACHE_PATH"):
        resolve_and_run(cluster_of("Tanh", T="float32"), x)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code generator that takes nothing."""

    def unfit(*_: object) -> None:
        raise Unfit("no kernel for it")

    monkeypatch.setattr(recipes, "compile_program", unfit)


@pytest.mark.usefixtures("no_kernel", "falling_back")
def test_what_cannot_be_compiled_is_interpreted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    data = cluster_of("TopKV2", T="float32", sorted=True, Tk="int32", index_type="int32")
    x = floats(4, 9)
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        values, places = resolve_and_run(data, x, np.array(3, np.int32))
    np.testing.assert_array_equal(values.view(np.float32).reshape(4, 3), -np.sort(-x, 1)[:, :3])
    np.testing.assert_array_equal(places.view(np.int32).reshape(4, 3), np.argsort(-x, 1, "stable")[:, :3])
    assert "TopKV2" in caplog.text and "interpreted" in caplog.text


@pytest.mark.usefixtures("falling_back")
@pytest.mark.parametrize("fallback", ["allow", "forbid"])
def test_a_second_process_does_not_try_again(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, no_kernel: None, caplog: pytest.LogCaptureFixture, fallback: str
) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    data = cluster_of("TopKV2", T="float32", sorted=True, Tk="int32", index_type="int32")
    resolve_and_run(data, floats(4, 9), np.array(3, np.int32))
    forget(monkeypatch)
    monkeypatch.setattr(recipes, "compile_program", None)
    monkeypatch.setenv("TF_CPU_RUNTIME_FALLBACK", fallback)
    if fallback == "forbid":
        with pytest.raises(FallbackForbidden, match="no kernel for it"):
            resolve_and_run(data, floats(4, 9), np.array(3, np.int32))
    else:
        with caplog.at_level(logging.WARNING, logger="habana_tf"):
            values, _ = resolve_and_run(data, floats(4, 9), np.array(3, np.int32))
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
        (out,) = resolve_and_run(cluster_of("AddV2", T="float32"), floats(3), floats(3))
        np.testing.assert_array_equal(out.view(np.float32), 2 * floats(3))
    assert f"AddV2 cannot be compiled ({error.__name__}: " in caplog.text and "a defect" in caplog.text
    assert not list(tmp_path.rglob("*.recipe"))
    monkeypatch.setattr(recipes, "compile_program", compile_program)
    resolve_and_run(cluster_of("AddV2", T="float32"), floats(3), floats(3))
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
        resolve_and_run(cluster_of("AddV2", T="float32"), floats(3), floats(3))
    assert not list(tmp_path.rglob("*.recipe"))
    monkeypatch.setattr(recipes, "compile_program", compile_program)
    (out,) = resolve_and_run(cluster_of("AddV2", T="float32"), floats(3), floats(3))
    np.testing.assert_array_equal(out.view(np.float32), 2 * floats(3))


@pytest.mark.usefixtures("no_kernel")
def test_interpretation_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPU_RUNTIME_FALLBACK", "forbid")
    data = cluster_of("TopKV2", T="float32", sorted=True, Tk="int32", index_type="int32")
    with pytest.raises(FallbackForbidden, match="TopKV2"):
        resolve_and_run(data, floats(4, 9), np.array(3, np.int32))


def test_arguments_that_an_op_refuses_are_refused_in_the_words_of_tensorflow() -> None:
    data = cluster_of("MatMul", "layer/mm", T="float32", transpose_a=False, transpose_b=False)
    with pytest.raises(LoweringError, match=r"In\[0\]: \[3,4\], In\[1\]: \[5,6\]"):
        resolve_and_run(data, floats(3, 4), floats(5, 6))


def test_the_instruction_set_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    data = cluster_of("AddV2", T="float32")
    resolve_and_run(data, floats(3), floats(3))
    monkeypatch.setenv("HABANA_SIM_ISA", "portable")
    resolve_and_run(data, floats(3), floats(3))
    assert cache.stats().counts().compiled == 2


@pytest.mark.skipif(not target().multiplies_bf16_pairs, reason="this CPU has one way only")
@pytest.mark.parametrize("several", [False, True], ids=["one op", "several"])
def test_how_bf16_is_multiplied_is_in_the_keys_of_bf16(monkeypatch: pytest.MonkeyPatch, several: bool) -> None:
    """And in no other's: two ways of it share all recipes of fp32."""
    for dtype, compiled in (("float32", 1), ("bfloat16", 2)):
        forget(monkeypatch)
        for way in ("dot", "widen"):
            multiply_bf16_by(way, monkeypatch)
            data = _two_products(dtype) if several else cluster_of("MatMul", T=dtype)
            ones = np.ones((32, 32), from_label(dtype).numpy)
            (out,) = resolve_and_run(data, ones, ones)
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


@pytest.mark.usefixtures("propagating")
def test_a_long_compilation_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than a second: the clock is moved on while a program is compiled."""
    caplog.set_level(logging.INFO, logger="habana_tf")
    x = np.ones([3, 5], np.float32)
    resolve_and_run(cluster_of("Add", T="float32"), x, x)
    assert not caplog.records
    now, compile_program = [0.0], recipes.compile_program

    def slowly(*arguments: Any) -> Any:
        now[0] = 2.34
        return compile_program(*arguments)

    monkeypatch.setattr(recipes, "compile_program", slowly)
    monkeypatch.setattr(recipes.time, "perf_counter", lambda: now[0])
    resolve_and_run(cluster_of("Sub", T="float32"), x, x)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "(1 ops, float32[" in record.getMessage() and record.getMessage().endswith("in 2.3 s")
