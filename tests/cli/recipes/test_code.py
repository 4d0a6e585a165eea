"""`recipes ir` and `asm` show what was compiled, and refuse where they could only guess."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from habana_tf.cache.recipe_cache import RecipeCache
from tests.cli.recipes.conftest import Keys


@pytest.fixture
def op(tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The key of an eager MatMul's recipe, made by the road that TensorFlow's ops take."""
    from tensorflow.core.framework import node_def_pb2, types_pb2

    from habana_tf.cache import process_cache
    from habana_tf.resolver import recipes
    from habana_tf.resolver.resolve import resolve
    from habana_tf.tensorflow.clusters.cluster import parse
    from habana_tf.tensorflow.clusters.writer import of_node

    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "cache"))
    recipes.reset()
    monkeypatch.setattr(process_cache, "CACHE", RecipeCache())
    node = node_def_pb2.NodeDef(name="net/product", op="MatMul", input=["x", "y"])
    node.attr["T"].type = types_pb2.DT_FLOAT
    signature = [(types_pb2.DT_FLOAT, (33, 17), None), (types_pb2.DT_FLOAT, (17, 65), None)]
    resolve(parse(of_node(node.SerializeToString())), signature)
    (row,) = json.loads(run("recipes", "list", "--json").out)["recipes"]
    return str(row["header"]["digest"])


def test_all_stages(op: str, run: Callable[..., Any]) -> None:
    cluster = run("recipes", "ir", op, "--stage", "cluster").out.splitlines()
    assert cluster[0] == "a0 = float32[s0]  # a" and cluster[2] == "n0 = MatMul(a0, a1)  # net/product"
    assert cluster[-1] == "return n0"
    primitives = run("recipes", "ir", op, "--stage", "primitives").out
    assert "product(%0, %1) float32[s2]" in primitives and "# net/product" in primitives
    llvm = run("recipes", "ir", op).out
    assert "define void @k0(" in llvm
    (kernel,) = json.loads(run("recipes", "show", op, "--json").out)["kernels"]
    one = run("recipes", "ir", op, "--kernel", "0").out
    assert one.count("define void @") == kernel["launches"][1] and one in llvm + "\n"


def test_machine_code_is_the_stored_one(op: str, run: Callable[..., Any], tmp_path: Path) -> None:
    result = run("recipes", "asm", op)
    assert result.code == 0 and "k0:" in result.out and "ret" in result.out
    file = tmp_path / "o"
    assert run("recipes", "asm", op, "--object", str(file)).code == 0
    assert file.read_bytes()[:4] == b"\x7fELF"
    assert json.loads(run("recipes", "asm", op, "--json").out)["text"].rstrip() == result.out.rstrip()
    assert run("recipes", "asm", op, "--object", str(tmp_path / "missing" / "o")).code == 1


def test_there_is_no_such_kernel(op: str, run: Callable[..., Any]) -> None:
    result = run("recipes", "asm", op, "--kernel", "7")
    assert result.code == 1 and "has 1 kernels" in result.err
    assert run("recipes", "ir", op, "--kernel", "0", "--stage", "cluster").code == 2


def test_another_compilers_recipe_is_not_guessed_at(cached: Keys, run: Callable[..., Any]) -> None:
    for arguments in (["asm"], ["ir"], ["ir", "--stage", "primitives"]):
        result = run("recipes", *arguments, cached["5"])
        assert result.code == 1 and "was compiled under another compiler" in result.err
    assert "n0 = MatMul(a0, a1)" in run("recipes", "ir", cached["5"], "--stage", "cluster").out


def test_what_says_nothing_of_its_source(cached: Keys, run: Callable[..., Any]) -> None:
    result = run("recipes", "ir", "Mul")
    assert result.code == 1 and "does not say what it was compiled from" in result.err
