"""Elementwise work behind contractions, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op, Program

from .running import check

F32 = DType.F32
MATMUL = Contraction(a=(0, 1), b=(1, 2), out=(0, 2))


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
