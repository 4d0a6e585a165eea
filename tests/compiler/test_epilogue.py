"""Elementwise work behind contractions, against the interpreter."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from habana_tf.compiler.codegen.tiles.fused import emit_contraction
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import Isa, target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Op, Program
from tests.compiler.running import MATMUL, check, check_range

F32 = DType.F32


@pytest.mark.parametrize("columns", [5, 32])
@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_a_concat_are_written_where_they_belong(axis: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    x, w, y = b.input((6, 7), F32), b.input((7, columns), F32), b.input((6, columns), F32)
    product = b.contract(x, w, MATMUL)

    def part(k: int) -> Node:
        return b.map("add", product, b.map("mul", y, b.expand(b.const(float(k), F32), (6, columns))))

    program = Program(b.inputs, [b.concat([y, part(1), b.map("neg", y), part(2)], axis)])
    kernels = [k for k in schedule(rewrite(program)).kernels if k.is_contraction]
    assert sum(s.target.op is Op.CONCAT for k in kernels for s in k.stores) == 2  # it is an epilogue
    check(program, [rng.standard_normal(n.shape).astype("f4") for n in b.inputs])


@pytest.mark.parametrize("columns", [5, 32])
def test_a_part_begins_where_a_size_says(columns: int) -> None:
    """A product behind so many rows of another tensor."""
    b = Builder()
    x, w, old = b.input((6, 7), F32), b.input((7, columns), F32), b.input((ext.sym(0), columns), F32)
    program = Program(b.inputs, [b.concat([old, b.contract(x, w, MATMUL)], 0)])
    kernels = [k for k in schedule(rewrite(program)).kernels if k.is_contraction]
    assert sum(s.target.op is Op.CONCAT for k in kernels for s in k.stores) == 1  # it is an epilogue
    check_range(program, [[1], [4], [9]])


def test_what_stands_beside_the_result_is_asked_for_before_the_sums_are_taken() -> None:
    b = Builder()
    x, w, bias, moment = (b.input(shape, F32) for shape in ((48, 40), (40, 64), (64,), (48, 64)))
    sums = b.map("add", b.contract(x, w, MATMUL), b.expand(b.reshape(bias, (1, 64)), (48, 64)))
    program = Program(b.inputs, [b.map("add", moment, b.map("mul", sums, sums))])
    (kernel,) = schedule(rewrite(program)).kernels
    wide = replace(target(), isa=Isa.AVX512)  # how rows and lines are walked depends on it
    (call,) = emit_contraction(kernel, "kernel", wide).calls
    text = call.ir.splitlines()
    asked = [i for i, line in enumerate(text) if "call void @llvm.prefetch" in line]
    multiplied = [i for i, line in enumerate(text) if "llvm.fmuladd" in line]
    assert asked and asked[0] < multiplied[0]
    made = dict(line.strip().split(" = ", 1) for line in text if " = " in line)
    buffers = set()
    for i in asked:
        first = re.search(r"ptr (%\w+)", text[i])[1]
        for step in (64, 64 * 4):  # a line further in each turn of the inner loop, a row in each of the outer one
            first, following = re.findall(r"\[ (%\w+), ", made[first])
            assert made[following].endswith(f"i64 {step}")
        buffers.add(re.search(r"ptr (%\w+), i64", made[first])[1])
    assert len(buffers) == 2, "the moment and the result, not the bias"
    rng = np.random.default_rng(0)
    # squares of up to some hundreds, of sums that may be rounded in any order
    check(program, [rng.standard_normal(n.shape).astype("f4") for n in b.inputs], atol=1e-3)
