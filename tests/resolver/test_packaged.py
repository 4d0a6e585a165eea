"""Recipes that come with the package: found by what they are, right, and never in the way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from habana_tf.hardware.cpu import common_targets, target
from habana_tf.ir.primitives import Program
from habana_tf.resolver import packaged
from habana_tf.resolver.key_text import program_text
from habana_tf.resolver.one_op import one_op
from habana_tf.resolver.pack_recipes import compiled, programs
from habana_tf.resolver.program_reader import read_program
from habana_tf.tensorflow.clusters import packaged_programs
from tests.child import python
from tests.installation import ROOT

needs_them = pytest.mark.skipif(
    target().common() is None or ROOT / "habana_tf" in packaged.FILE.parents,
    reason="packaged recipes are for x86-64 with AVX2, and an editable install has none",
)


def hits(script: str, **settings: str) -> dict[str, dict[str, int]]:
    """How the recipes of the eager ops of a script came."""
    more = "\nimport json; print(json.dumps(habana_tf.recompilation_report().one_op))"
    load = "import tensorflow as tf, habana_tf\nhabana_tf.load_habana_module()\n"
    done = python(load + script + more, imported=True, **settings)
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


MODEL = """
model = tf.keras.Sequential([tf.keras.layers.Conv2D(8, 3, activation="relu"), tf.keras.layers.BatchNormalization(),
                             tf.keras.layers.Flatten(), tf.keras.layers.Dense(4, activation="softmax")])
x = tf.random.stateless_uniform([2, 9, 9, 3], [1, 2])
y = model(x)
with tf.device("/CPU:0"):
    want = model(x)
tf.debugging.assert_near(y, want, 1e-5, 1e-6)
"""


@needs_them
def test_the_first_call_of_a_model_compiles_little_and_is_right() -> None:
    found = hits(MODEL)
    kinds = [how for each in found.values() for how in each]
    assert kinds.count("packaged") >= 8 and kinds.count("compiled") <= 2, found


@needs_them
def test_metrics_compile_no_op_by_itself() -> None:
    """Their weights have no axes; `fit` shows a quotient of two."""
    found = hits("""
metric = tf.keras.metrics.Mean()
metric.update_state(3.0)
assert float(metric.result()) == 3.0
""")
    for op in ("Fill", "DivNoNan"):
        assert "packaged" in found[op] and "compiled" not in found[op], found


def abs_program() -> Program:
    """The first of the file."""
    return next(programs(LISTED, "x86_64"))[2]


LISTED = (ROOT / "habana_tf" / "resolver" / "packaged_programs.txt").read_text()


def test_each_kind_of_cpu_has_its_own() -> None:
    keys = {packaged.packaged_key(abs_program(), kind).digest for kind in common_targets()}
    assert len(keys) == 3


def test_every_form_is_of_any_shape_or_of_shapes() -> None:
    """A form for one shape only would be of no use to anybody."""
    fixed = []
    for form in packaged_programs.forms():
        met = packaged_programs._called(form)
        if not one_op(met, common_targets()[0]).dims:
            fixed.append((met.cluster.nodes[0].op, max(int(np.prod(s)) for s in met.shapes)))
    assert not [each for each in fixed if each[1] > 5]


def test_the_listed_programs_are_those_that_the_lowerings_make() -> None:
    """The build of a wheel compiles what is listed, without TensorFlow. Out of date, it is never found at run time."""
    now = packaged_programs.paragraphs().split("\n\n")
    listed = LISTED.split("\n\n")
    changed = [each.partition("\n")[0] for each in now if each not in set(listed)]
    assert not changed and now == listed, f"make programs writes these anew: {changed}"


def test_a_listed_program_compiles_to_what_the_op_compiles_to() -> None:
    kind = common_targets()[0]
    listed = {program_text(program): program for k, _, program in programs(LISTED, "x86_64") if k == kind}
    for form in packaged_programs.forms():
        _, name, program = next(packaged_programs.named_programs(form))
        if name in ("BiasAdd", "DepthwiseConv2dNative", "StatelessRandomGetKeyCounter"):
            assert compiled(listed[program_text(program)], name, kind) == compiled(program, name, kind)


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("INPUT [] [s0] F32 0\nMAP [%1] [s0] F32 'abs'", "IndexError"),
        ("INPUT [] [s0] F32 0\nMAP [%0] [s0] F33 'abs'", "F33"),
        ("INPUT [] [s0] F32 0\nMAP [%0] [s0] F32 __import__('os').abort()", "is in no program"),
        ("CONST [] [2] F32 5feceb66ffc86f38", "no program of one op"),
        ("INPUT [] [s0] F32 0\ninputs [%0]\noutputs [%0]\nstates [2]", "is another program"),
    ],
)
def test_what_is_no_listed_program_is_an_error(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        read_program(text)


def test_a_damaged_file_is_said_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kind = common_targets()[0]
    program = abs_program()
    digest, data = compiled(program, "Abs", kind)
    monkeypatch.setattr(packaged, "FILE", tmp_path / "recipes.zip")

    def found(content: bytes) -> bool:
        packaged._opened.cache_clear()
        with ZipFile(packaged.FILE, "w") as out:
            out.writestr(digest, content)
        return packaged.packaged(program, kind) is not None

    assert found(data)
    assert not caplog.records
    assert not found(data[:-1] + bytes([data[-1] ^ 1]))
    assert "is damaged" in caplog.text and "install habana_tf again" in caplog.text
    packaged.FILE.write_bytes(b"no zip")
    packaged._opened.cache_clear()
    assert packaged.packaged(program, kind) is None
    assert "cannot be read" in caplog.text
    packaged.FILE.unlink()
    packaged._opened.cache_clear()
    assert packaged.packaged(program, kind) is None
    packaged._opened.cache_clear()


@pytest.mark.skipif(target().common() is None, reason="packaged recipes are for x86-64 with AVX2")
def test_they_are_found_on_another_chip_and_where_the_instructions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = target()
    kind = goal.common()
    assert kind is not None
    program = abs_program()
    digest, data = compiled(program, "Abs", kind)
    monkeypatch.setattr(packaged, "FILE", tmp_path / "recipes.zip")
    with ZipFile(packaged.FILE, "w") as out:
        out.writestr(digest, data)
    packaged._opened.cache_clear()
    try:
        for chip in ("gaudi", "gaudi3"):
            monkeypatch.setenv("HABANA_SIM_CHIP", chip)
            for isa in ("auto", goal.instructions, kind.instructions):
                monkeypatch.setenv("HABANA_SIM_ISA", isa)
                assert packaged.packaged(program, target()) is not None, (chip, isa)
        monkeypatch.setenv("HABANA_SIM_ISA", "portable")
        assert packaged.packaged(program, target()) is None
    finally:
        packaged._opened.cache_clear()
