"""Tensors made of nothing: identity matrices, sequences of numbers.

What PyTorch gives with a start and an end is recorded with its length, so that a sequence that begins elsewhere, as
positions of a cache do, is the same program.
"""

from __future__ import annotations

from typing import Any

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, overload


@overload("eye", "eye.m")
def eye(c: Call, *sizes: int, **options: Any) -> Node:
    b = c.b
    same = b.binary("eq", b.iota(c.shape, 0), b.iota(c.shape, 1))
    return b.cast(same, c.dtype)


@overload("habana_tf::sequence", runtime=["start", "step"])
def sequence(c: Call, count: int, start: Operand, step: Operand, dtype: Any) -> Node:
    """start + k * step for k < count: of whole numbers in int64, since float32 has not all places from 2**24 on."""
    kind = start.dtype if isinstance(start, Node) and start.dtype.is_int else c.dtype
    place = c.term(c.b.iota(c.shape, 0), kind)
    return (c.term(start, kind) + place * c.term(step, kind)).node


@overload("habana_tf::between", runtime=["start", "end"])
def between(c: Call, count: int, start: Operand, end: Operand, dtype: Any) -> Node:
    """count numbers from start to end, both included, each from the nearer one."""
    first, last = c.term(start, DType.F32), c.term(end, DType.F32)
    place = c.term(c.b.iota(c.shape, 0), DType.F32)
    step = (last - first) / float(max(count - 1, 1))
    near = place.test("lt", float(count // 2))
    low, high = first + step * place, last - step * (float(count - 1) - place)
    made = near.where(low, high) if count > 1 else Term(c.b, c.b.expand(first.node, c.shape))
    return made.node
