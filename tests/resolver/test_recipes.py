"""The one memory of recipes: what is kept, one flight per key, and that a fresh recipe is launched as it was made."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from habana_tf import cache
from habana_tf._native import _bridge
from habana_tf.cache.entry_head import FORMAT_VERSION
from habana_tf.cache.key import Key
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir.dtypes import DType
from habana_tf.resolver import provenance, recipes
from habana_tf.resolver.resolve import resolve
from habana_tf.tensorflow.clusters.cluster import parse
from tests.benchmarks.memory_curve import written
from tests.resolver.resolving import forget

SHAPES = [(6, 4), (4, 3), (3,)]
DENSE = (("MatMul", 1), ("BiasAdd", 1), ("Relu", 0), ("Tanh", 0))
pytestmark = pytest.mark.usefixtures("fresh")


def _made(code: int = 0) -> Recipe:
    return Recipe("made", [], [], [], [], b"", b"c" * code)


def _key(n: int) -> Key:
    return Key.of([("n", n)])


def _get(n: int, program: str = "", made: Recipe | None = None) -> tuple[Recipe, str]:
    return recipes.get(_key(n), "made", lambda: program or _key(n).digest, lambda _: made or _made())


def _program(data: bytes, shapes: list[tuple[int, ...]]) -> Any:
    return resolve(parse(data), [(DType.F32.number, shape, None) for shape in shapes])


def _run(program: Any, shapes: list[tuple[int, ...]]) -> Any:
    x, w, b = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes)
    (out,) = _bridge.run_program(program, [x, w, b])
    want = np.tanh(np.maximum(x @ w + b, 0))
    np.testing.assert_allclose(out.view(np.float32).reshape(want.shape), want, rtol=1e-4, atol=1e-5)


def test_those_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_memory", recipes.RecipeMemory(most=2))
    for n in (0, 1, 0, 2):
        _get(n)
    assert [recipes._memory.find(_key(n).digest) is not None for n in range(3)] == [True, False, True]
    assert cache.stats().counts().memory_hits == 1


def test_machine_code_and_constants_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_memory", recipes.RecipeMemory(most_bytes=2500))
    for n in range(3):
        _get(n, made=_made(1000))
    assert [recipes._memory.find(_key(n).digest) is not None for n in range(3)] == [False, True, True]
    _get(3, made=_made(9000))  # larger than all: it is in use
    assert [recipes._memory.find(_key(n).digest) is not None for n in range(4)] == [False, False, False, True]


def test_keys_of_one_program_share_its_recipe_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_memory", memory := recipes.RecipeMemory(most=10))
    first, how = _get(0, "program")
    assert how == "compiled"
    for n in range(1, 100):
        assert _get(n, "program") == (first, "known")
    assert len(memory._keys) == 10 and len(memory._made) == 1
    assert _get(99, "never asked for") == (first, "known")


def test_what_cannot_be_compiled_is_remembered() -> None:
    def refuse(_: str) -> Recipe:
        raise Unfit("no kernel for it")

    with pytest.raises(Unfit, match="no kernel for it"):
        recipes.get(_key(0), "made", lambda: "program", refuse)
    for n in (0, 1):  # the key, and another one of the program
        with pytest.raises(Unfit, match="no kernel for it"):
            _get(n, "program")


def test_an_interruption_is_not_remembered_and_passes_the_turn_on() -> None:
    def interrupt(_: str) -> Recipe:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recipes.get(_key(0), "made", lambda: "program", interrupt)
    assert _get(0, "program")[1] == "compiled"
    assert not recipes._memory._flights


@pytest.mark.parametrize("keys", ["one", "one program", "others"])
def test_of_eight_threads_one_compiles(keys: str) -> None:
    """Also where they ask by different keys that come to one program. Other keys are not held up."""
    compiled: list[str] = []
    found: list[Recipe] = []
    together = threading.Barrier(8)

    def compile(program: str) -> Recipe:
        compiled.append(program)
        if keys == "others":
            together.wait(30)  # all of them compile at the same time
        time.sleep(0.1)
        return _made()

    def work(k: int) -> None:
        key = _key(0 if keys == "one" else k)
        program = key.digest if keys == "others" else "program"
        found.append(recipes.get(key, "made", lambda: program, compile)[0])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = 8 if keys == "others" else 1
    assert (len(compiled), len({id(r) for r in found}), len(found)) == (made, made, 8)
    assert not recipes._memory._flights, "nothing is kept of flights that ended"


@pytest.mark.parametrize("on_disk", [False, True])
def test_of_eight_threads_that_meet_a_shape_one_compiles(
    on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_disk:
        monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    data, programs = written(DENSE), []
    threads = [threading.Thread(target=lambda: programs.append(_program(data, SHAPES))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(programs) == 8 and cache.stats().counts().compiled == 1
    for program in programs:
        _run(program, SHAPES)


def test_the_garbage_collector_rests_while_a_cluster_is_lowered_and_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    resting = {}

    def seen(module: Any, name: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a: (resting.update({name: not gc.isenabled()}), real(*a))[1])

    seen(provenance, "lower")
    seen(recipes, "compile_program")
    _run(_program(written(DENSE), SHAPES), SHAPES)
    assert resting == {"lower": True, "compile_program": True} and gc.isenabled()


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_fresh_recipe_is_launched_as_it_was_made(
    on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read from what was written; and where nothing is written, nothing is packed."""

    def fail(*_: object) -> None:
        raise AssertionError("a fresh recipe is at hand")

    monkeypatch.setattr(recipes, "unpack", fail)
    if on_disk:
        monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    else:
        monkeypatch.setattr(recipes, "pack", fail)
    _run(_program(written(DENSE), SHAPES), SHAPES)
    assert len(list(tmp_path.rglob("*.recipe"))) == on_disk


def test_a_recipe_of_another_version_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One of another format, and one of another compiler: either is made anew, and nothing is said."""
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path / "recipes"))
    _program(written(DENSE), SHAPES)
    (old,) = tmp_path.rglob("*.recipe")
    shelf = tmp_path / "recipes" / "v3" / old.parent.name
    shelf.mkdir(parents=True)
    old.rename(shelf / old.name)
    forget(monkeypatch)
    _run(_program(written(DENSE), SHAPES), SHAPES)
    assert cache.stats().counts().compiled == 1
    forget(monkeypatch)
    monkeypatch.setattr("habana_tf.resolver.keys.compiler_version", lambda: "another")
    _run(_program(written(DENSE), SHAPES), SHAPES)
    assert cache.stats().counts().compiled == 1
    assert FORMAT_VERSION == 6 and not caplog.text


def test_a_program_runs_on_when_its_recipe_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_memory", memory := recipes.RecipeMemory(most=1))
    program = _program(written(DENSE), SHAPES)
    gone = weakref.ref(next(iter(memory._made.values()))[0])
    _program(written((*DENSE, ("Neg", 0))), SHAPES)
    gc.collect()
    assert gone() is None, "nothing else keeps a recipe"
    _run(program, SHAPES)


def test_the_programs_of_one_recipe_are_one_per_size_and_share_its_constants() -> None:
    data = written(DENSE)
    shapes = [[(n, 4), (4, 3), (3,)] for n in (6, 7, 9)]
    first, *others = [_program(data, s) for s in shapes]
    again = [_program(data, s) for s in shapes[1:]]
    assert cache.stats().counts().compiled == 2  # for the first size, and for any
    _run(first, shapes[0])
    for program, same, s in zip(others, again, shapes[1:], strict=True):
        _run(program, s)
        assert _bridge.program_number(same) == _bridge.program_number(program), "it is the same program"
