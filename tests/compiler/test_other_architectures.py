"""LLVM makes code of all that is generated for a CPU of another architecture, by functions that are there.

Whether its numbers are right is seen where it runs: these tests themselves, under an emulator (see CONTRIBUTING.md).
"""

from __future__ import annotations

import ctypes
import platform
import re

import pytest

from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.codegen.machine import Loaded, assembly
from habana_tf.compiler.codegen.objects import split
from habana_tf.compiler.compile import compile_program, prepared
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import Isa, Target, any_cpu
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Program
from habana_tf.resolver.one_op import one_op
from tests.effort import some
from tests.tensorflow.clusters.eager_forms import OpCall, forms, met_by

ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
CALLS = re.compile(r"^\s+(?:bl|callq?)\s+([\w.]+)", re.MULTILINE)
KINDS = AVX2, AVX512, NEON = any_cpu(Isa.AVX2), any_cpu(Isa.AVX512), any_cpu(Isa.NEON)
FORMS = [
    pytest.param(kind, form, id=f"{kind.instructions}-{number}")
    for kind in KINDS
    for number, form in enumerate(forms())
]


def code(program: Program, kind: Target) -> str:
    """The assembly of all kernels of a program."""
    modules: list[str] = []
    generate(schedule(prepared(program)), kind, modules.append, 1 << 20)
    return "".join(assembly(ir, kind) for ir in modules)


def runs_anywhere(text: str) -> None:
    """No call of a function of a compiler's run-time library, which is not linked."""
    there = ctypes.CDLL(None)
    assert not [name for name in CALLS.findall(text) if not hasattr(there, name)]


@pytest.mark.part
@pytest.mark.parametrize(("kind", "form"), some(FORMS, 25))
def test_each_eager_op_has_code_for_each_kind_of_cpu(kind: Target, form: OpCall) -> None:
    program = one_op(met_by(form), kind).program
    text = code(program, kind)
    assert "ret" in text
    runs_anywhere(text)
    recipe: Recipe = compile_program(program, "eager", kind)
    machines = {int.from_bytes(each[18:20], "little") for each in split(recipe.code)}
    assert machines == {ELF_MACHINES[kind.architecture]}


def test_code_for_another_architecture_is_not_loaded() -> None:
    """LLVM's linker would end the process, or the processor would."""
    for kind in KINDS:
        if kind.architecture != platform.machine():
            with pytest.raises(ValueError, match=f"code for {kind.architecture} does not run on this machine"):
                Loaded([], [], kind)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_products_keep_their_sums_in_the_registers_of_neon(dtype: DType) -> None:
    """A tile of sums is as large as the registers are many: an inner loop of fused multiply-adds, and nothing spilled
    in it."""
    b = Builder()
    product = b.contract(b.input((96, 64), dtype), b.input((64, 256), dtype), Contraction((0, 1), (1, 2), (0, 2)))
    text = code(Program(b.inputs, [product]), NEON)
    runs_anywhere(text)
    inner = max(re.split(r"^\.LBB\w+:|^\tb\..*", text, flags=re.MULTILINE), key=lambda each: each.count("fmla"))
    assert inner.count("fmla") >= min(vectors * rows for vectors, rows in NEON.register_tiles.items())
    assert not re.search(r"str\s+q\d+, \[sp", inner), inner
