"""A recipe survives being packed, and binds symbolic extents to numbers."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from habana_tf._native import _bridge
from habana_tf.compiler import compressed
from habana_tf.compiler.codegen.machine import Loaded
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import pack, unpack
from habana_tf.compiler.recipe import Recipe, bind
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program


def _rows(symbolic: bool) -> Recipe:
    b = Builder()
    n, m = (ext.sym(0), ext.sym(1)) if symbolic else (37, 19)
    x, y = b.input((n, m), DType.F32), b.input((m,), DType.F32)
    return compile_program(Program(b.inputs, [b.binary("add", b.map("exp", x), y)]), "rows", target())


@pytest.mark.parametrize("symbolic", [True, False])
def test_packed_and_unpacked_it_is_the_same_recipe(symbolic: bool) -> None:
    recipe = _rows(symbolic)
    header, sections = pack(recipe)
    assert header["kernels"] == {"MME": 0, "TPC": 1}
    assert header["flops"] == (None if symbolic else 2 * 37 * 19)
    assert json.loads(compressed.take(sections["kernels"])) == recipe.kernels
    again = unpack(recipe.name, sections)
    assert (again.calls, again.buffers, again.outputs) == (recipe.calls, recipe.buffers, recipe.outputs)
    assert again.code == recipe.code


@pytest.mark.parametrize("n, m", [(1, 1), (37, 19), (3, 20000), (5000, 3), (2, 16)])
def test_one_symbolic_recipe_serves_all_shapes(n: int, m: int) -> None:
    recipe = _rows(symbolic=True)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, m)).astype(np.float32), rng.normal(size=m).astype(np.float32)
    (out,) = _bridge.run_program(bind(recipe, (n, m), None, target()), [x, y])
    np.testing.assert_allclose(out.view(np.float32).reshape(n, m), np.exp(x) + y, rtol=1e-6, atol=1e-5)


def test_threads_that_bind_one_recipe_link_its_code_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the code that one thread has the addresses of is unmapped when the other's takes its place."""
    linked = []

    class Slow(Loaded):
        def __init__(self, *args: Any) -> None:
            linked.append(self)
            time.sleep(0.2)
            super().__init__(*args)

    monkeypatch.setattr("habana_tf.compiler.recipe.Loaded", Slow)
    recipe = _rows(symbolic=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: bind(recipe, (n, 3), None, target()), range(1, 5)))
    assert linked == [recipe.loaded]


def test_compiling_twice_gives_the_same_bytes() -> None:
    assert pack(_rows(False)) == pack(_rows(False))


def test_a_recipe_has_one_program_per_size_which_lives_as_long_as_its_owners() -> None:
    recipe = _rows(symbolic=True)
    first, other = bind(recipe, (7, 3), None, target()), bind(recipe, (8, 3), None, target())
    assert recipe.data is not None
    _bridge.run_program(first, [np.zeros((7, 3), np.float32), np.zeros(3, np.float32)])
    again = bind(recipe, (7, 3), None, target())
    assert _bridge.program_number(again) == _bridge.program_number(first)
    assert _bridge.program_number(other) != _bridge.program_number(first)
    assert recipe.data.alive() == 2
    del first
    assert recipe.data.alive() == 2
    del again, other
    assert recipe.data.alive() == 0
