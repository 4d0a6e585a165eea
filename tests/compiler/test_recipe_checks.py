"""A recipe that is whole and lies is refused before anything of it runs."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from habana_tf.cache.entry import Entry, decode, encode
from habana_tf.cache.entry_head import EntryError
from habana_tf.compiler.code_checks import CodeError, functions
from habana_tf.compiler.codegen.objects import join, split
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import pack, seal, unpack
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.recipe_checks import RecipeError, check
from habana_tf.hardware.cpu import target
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Program
from tests.child import python


@functools.cache
def _program() -> Program:
    """Two products and what stands between them: inputs, a workspace, an output."""
    b = Builder()
    x, y, z = b.input((33, 65), DType.F32), b.input((65, 40), DType.F32), b.input((40, 7), DType.F32)
    matrix = Contraction((0, 1), (1, 2), (0, 2))
    middle = b.map("exp", b.contract(x, y, matrix))
    return Program(b.inputs, [b.contract(middle, z, matrix)])


@functools.cache
def _packed() -> dict[str, bytes]:
    return pack(compile_program(_program(), "made", target()))[1]


def _check(recipe: Recipe) -> None:
    program = _program()
    check(recipe, *([(n.dtype, n.shape) for n in nodes] for nodes in (program.inputs, program.outputs)))


LIES: dict[str, Callable[[Any], Any]] = {
    "a buffer is another input": lambda p: p["buffers"][0].__setitem__(1, 1),
    "a buffer is an input that is not there": lambda p: p["buffers"][0].__setitem__(1, 9),
    "a buffer has more bytes": lambda p: p["buffers"][0].__setitem__(2, 1 << 40),
    "a buffer has less than no bytes": lambda p: p["buffers"][-1].__setitem__(2, -64),
    "buffers in another order": lambda p: p["buffers"].reverse(),
    "an input is called an output": lambda p: p["buffers"][0].__setitem__(0, 1),
    "a kind that is none": lambda p: p["buffers"][0].__setitem__(0, 99),
    "a function that is not there": lambda p: p["launches"][0].__setitem__(0, "abort"),
    "no function": lambda p: p["launches"][0].__setitem__(0, 7),
    "a buffer of a call that is not there": lambda p: p["launches"][0][1].append(77),
    "a huge grid": lambda p: p["launches"][0].__setitem__(2, 1 << 50),
    "a negative grid": lambda p: p["launches"][0].__setitem__(2, -1),
    "no grain": lambda p: p["launches"][0].__setitem__(3, 0),
    "an output of another type": lambda p: p["outputs"][0].__setitem__(0, "int32"),
    "an output of another shape": lambda p: p["outputs"][0][1].__setitem__(0, 34),
    "an output too many": lambda p: p["outputs"].append(p["outputs"][0]),
    "calls that are left out": lambda p: p["launches"].clear(),
    "a loop without end": lambda p: p["loops"].append([0, 1, 3, [], [], 1 << 60]),
    "a loop of calls that are not there": lambda p: p["loops"].append([1, 1 << 40, 3, [], [], 1]),
    "a window that is none": lambda p: p["loops"].append([0, 1, 3, [[0, 0, 64, 0]], [], 1]),
    "a copy of nothing": lambda p: p["copies"].append([0, 5, 0]),
    "an update of nothing": lambda p: p["in_place"].append([0, 5]),
    "no buffers": lambda p: p.pop("buffers"),
    "text for a list": lambda p: p.__setitem__("launches", "none"),
}


def test_a_recipe_as_it_was_stored_is_taken() -> None:
    _check(unpack("made", _packed()))


def test_rows_of_no_elements_are_taken_too() -> None:
    b = Builder()
    x = b.input((3, 0), DType.F32)
    program = Program(b.inputs, [b.scan("sum", x, 1), b.sort(x, 1)])
    recipe = unpack("made", pack(compile_program(program, "made", target()))[1])
    check(recipe, *([(n.dtype, n.shape) for n in nodes] for nodes in (program.inputs, program.outputs)))


@pytest.mark.parametrize("lie", LIES)
def test_a_recipe_that_lies_is_refused(lie: str) -> None:
    plan = json.loads(_packed()["plan"])
    told = copy.deepcopy(plan)
    LIES[lie](told)
    assert told != plan
    with pytest.raises((RecipeError, ValueError, KeyError, TypeError, AttributeError)):
        _check(unpack("made", {**_packed(), "plan": json.dumps(told).encode()}))


def test_a_workspace_is_there_as_long_as_calls_work_on_it() -> None:
    recipe = unpack("made", _packed())
    at = next(k for k, b in enumerate(recipe.buffers) if b.kind.name == "WORKSPACE")
    recipe.buffers[at] = dataclasses.replace(recipe.buffers[at], last=recipe.buffers[at].first - 1)
    with pytest.raises(RecipeError, match=f"works on buffer {at}"):
        _check(recipe)


def test_junk_in_the_place_of_code_is_refused() -> None:
    """Or it is an object file still, whose tables lie within it."""
    (code, *_) = split(_packed()["object"])
    rng = np.random.default_rng(0)
    for junk in (b"", b"\x7fELF", rng.bytes(4096), code[:-40], code[: len(code) // 2], b"\0" * len(code)):
        with pytest.raises((RecipeError, CodeError)):
            _check(dataclasses.replace(unpack("made", _packed()), code=join([junk])))
    for _ in range(2000):
        damaged = bytearray(code)
        at = int(rng.integers(0, 64)) if rng.random() < 0.3 else int(rng.integers(0, len(code)))
        damaged[at] = int(rng.integers(0, 256))
        try:
            functions([bytes(damaged)])
        except CodeError:
            continue


TRAINED = """
    import sys
    import tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    step = tf.function(lambda x, y: tf.matmul(tf.exp(x), y) + 1.0)
    with tf.device("/HPU:0"):
        made = step(tf.ones([8, 16]), tf.ones([16, 4]))
        print(float(tf.reduce_sum(tf.math.xlog1py(made, made))))  # one that does not come with the package
"""


def _endless(plan: Any) -> bool:
    """Work items without number."""
    for call in plan["launches"]:
        call[2] = 1 << 50
    return bool(plan["launches"])


def _endless_over_symbols(plan: Any) -> bool:
    """The same where the number of work items is over symbols, so that it is one when the recipe is bound only."""
    calls = [call for call in plan["launches"] if isinstance(call[2], dict)]
    for call in calls:
        call[2] = {"c": 0, "t": [[0, 1 << 50]]}
    return bool(calls)


def _swapped(plan: Any) -> bool:
    """Two buffers of a call change places."""
    calls = [call for call in plan["launches"] if len(call[1]) > 1]
    for call in calls:
        call[1][:2] = call[1][1::-1]
    return bool(calls)


@pytest.mark.parametrize("lie, sealed, said", [
    (_endless, False, "work items"), (_endless_over_symbols, True, "work items"), (_swapped, False, "made together"),
])  # fmt: skip
def test_a_stored_recipe_that_lies_is_a_miss_with_a_warning(
    lie: Callable[[Any], bool], sealed: bool, said: str, tmp_path: Path
) -> None:
    """Recipes of the directory get another plan, and a head and digests that fit; sealed: also a seal."""
    run = functools.partial(python, TRAINED, imported=True, TF_RECIPE_CACHE_PATH=str(tmp_path), timeout=120)
    honest = run()
    changed = 0
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        try:
            entry = decode(file.read_bytes())
        except EntryError:
            continue
        plan = json.loads(entry.sections["plan"])
        if not lie(plan):
            continue
        sections = {**entry.sections, "plan": json.dumps(plan).encode()}
        header = dict(entry.header)
        if sealed:
            header["seal"] = seal(header.get("program", entry.digest), sections)
        file.write_bytes(encode(Entry(header, sections)))
        changed += 1
    assert changed
    lying, again = run(), run()
    assert honest.stdout == lying.stdout == again.stdout
    assert said in lying.stderr and lying.stderr.count("compiled again") == changed
    assert "compiled again" not in again.stderr  # the new recipe has taken its place


def test_a_seal_is_that_of_one_program_and_of_all_its_parts() -> None:
    sections = _packed()
    others = [{**sections, name: sections[name] + b" "} for name in ("plan", "object", "constants")]
    seals = [seal("a", sections), seal("b", sections), *(seal("a", other) for other in others)]
    assert len(set(seals)) == len(seals)


CHECKED = """
    import tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    look = tf.function(lambda x, i: tf.gather(tf.exp(x), i) + 1.0)
    with tf.device("/HPU:0"):
        print(tf.gather(tf.ones([4, 3]), [1, 2]).numpy().sum(), look(tf.ones([4, 3]), tf.constant([3])).numpy().sum())
"""


def test_a_stored_recipe_whose_launches_check_indices_is_taken(tmp_path: Path) -> None:
    """A program computes more than its op gives: the largest index, in the workspace."""
    run = functools.partial(python, CHECKED, imported=True, TF_RECIPE_CACHE_PATH=str(tmp_path), timeout=60)
    first, second = run(), run(HABANA_SIM_COMPILE="forbid")
    assert first.stdout == second.stdout
    assert "compiled again" not in second.stderr and "not in [0" not in second.stderr
