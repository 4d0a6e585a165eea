"""A cache with a small layer compiled for this CPU, for two batch sizes and for any, and two eager ops; a browser."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.compiler import compressed
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import pack
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Program
from tests.cli.recipes.browser import Browser

WIDTH, OUT = 30, 20
OPS = [["MatMul", "net/dense/MatMul", [[-1, 0], [-1, 1]]], ["Exp", "net/dense/Exp", [[0, 0]]],
       ["Softmax", "net/softmax", [[1, 0]]]]  # fmt: skip


def layer(rows: Extent) -> Program:
    """The sums and quotients of exp(x @ w): three ops in more than one kernel, with something in the workspace."""
    b = Builder()
    x, w = b.input((rows, WIDTH), DType.F32), b.input((WIDTH, OUT), DType.F32)
    b.origin = 0
    product = b.contract(x, w, Contraction((0, 1), (1, 2), (0, 2)))
    b.origin = 1
    powers = b.map("exp", product)
    b.origin = 2
    total = b.expand(b.reshape(b.reduce("sum", powers, [1]), (rows, 1)), (rows, OUT))
    return Program(b.inputs, [b.map("div", powers, total)])


def key_of(name: str, shape: list[Any]) -> Key:
    return Key.of(
        [("cluster", name), ("inputs", [["float32", shape]]), ("compiler", "here"), ("HABANA_SIM_CHIP", "gaudi2")]
    )


def put_layer(cache: RecipeCache, rows: Extent, seconds: float) -> Key:
    """Stores it as the compiler does."""
    shape = [rows if isinstance(rows, int) else str(rows), WIDTH]
    header, sections = pack(compile_program(layer(rows), "step", target()))
    described = [{"dtype": "float32", "shape": shape}]
    header |= {"ops": {"MatMul": 1, "Exp": 1, "Softmax": 1}, "inputs": described, "outputs": described,
               "scopes": {"net": 3}, "takes": "float32[...]",
               "tools": {"llvm": "22.1"}, "memory": {"constant_bytes": 0}}  # fmt: skip
    graph = {"inputs": ["images"], "ops": OPS, "outputs": [[2, 0]], "shapes": [], "values": []}
    sections["graph"] = compressed.put(json.dumps(graph).encode())
    key = key_of("step", shape)
    assert cache.lookup(key, "step") is None
    cache.store(key, "step", header, sections, seconds)
    return key


def put_op(cache: RecipeCache, op: str, seconds: float) -> Key:
    """Stores the recipe of an eager op; its sections are of no interest."""
    key = Key.of([("program", f"INPUT\n{op}"), ("compiler", "here")])
    described = [{"dtype": "float32", "shape": ["s0"]}]
    header = {"ops": {op: 1}, "inputs": described, "outputs": described, "takes": "float32[s0]"}
    assert cache.lookup(key, op) is None
    cache.store(key, op, header, {"object": os.urandom(50_000)}, seconds)
    return key


class Keys(dict[str, str]):
    """The keys' digests in the cache at `path`, by what they are of."""

    path: Path


@pytest.fixture
def cached(tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Keys:
    """One run that missed everything, and one that found it."""
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(root))
    first = RecipeCache()
    keys = Keys()
    keys.path = root
    made = {"add": put_op(first, "AddV2", 0.02), "64": put_layer(first, 64, 2.0), "5": put_layer(first, 5, 1.0),
            "any": put_layer(first, ext.sym(0), 3.0), "mul": put_op(first, "Mul", 0.04)}  # fmt: skip
    first.close()
    second = RecipeCache()
    for key in made.values():
        assert second.lookup(key) is not None
    second.close()
    keys.update({name: key.digest for name, key in made.items()})
    return keys


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """Chromium, where the machine has it."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        binary = shutil.which(name)
        if binary is not None:
            return Browser(binary, tmp_path / "profile")
    pytest.skip("no chromium on this machine: install the distribution's package `chromium`")
