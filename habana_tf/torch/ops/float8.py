"""Habana's casts from and to 8-bit floats, and their product, which other devices compute by `hpu_ops.float8`.

A product keeps its operands in 8 bits, as the card's arrays take them: the compiler widens them.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas import float8
from habana_tf.ir.dtypes import LARGEST_E4M3, DType
from habana_tf.ir.primitives import Contraction, Node
from habana_tf.torch.ops.row import Call, Operand, overload


def _scaled(c: Call, x: Node, scale: Operand | None, dtype: DType, shape: Sequence[int] | None) -> Node:
    """x in `dtype`, times a number in that type, a vector along its last axis, or a tensor of the shape given."""
    b = c.b
    x = float8.cast(b, x, dtype)
    if scale is None:
        return x
    factor = c.node(scale, dtype)
    if shape is not None and isinstance(scale, Node):
        factor = b.reshape(factor, shape)
    return b.map("stored", b.binary("mul", x, b.map("stored", factor)))


@overload("hpu::cast_to_fp8_v2", "hpu::cast_to_fp8_v2.scalar", runtime=["scale"])
def cast_to_fp8(
    c: Call, x: Node, scale: Operand | None = None, stochastic_rounding: bool = False, is_amax: bool = False,
    dtype: None = None, scale_shape: Sequence[int] | None = None,
) -> tuple[Node, Node]:  # fmt: skip
    """The cast, whose numbers end at the largest of the format, and the largest size of x, or nothing."""
    b, source = c.b, DType.F32 if x.dtype in float8.FLOAT8 else x.dtype
    end = float8.largest(c.dtype)
    out = float8.saturated(float8.widened(b, _scaled(c, x, scale, source, scale_shape)), end).done(c.dtype)
    if not is_amax or 0 in x.shape:
        return out, b.const(0, DType.F32, () if is_amax else (0,))
    return out, b.reduce("max", b.map("abs", b.cast(x, DType.F32)), range(x.rank))


@overload("hpu::power_of_two")
def power_of_two(c: Call, x: Node, up: bool = False) -> Node:
    b, bits = c.b, c.b.map("bitcast", x, dtype=DType.I32)
    if up:
        bits = b.binary("add", bits, b.const(0x7FFFFF, DType.I32))
    return b.map("bitcast", b.binary("and", bits, b.const(0x7F800000, DType.I32)), dtype=DType.F32)


@overload("hpu::cast_from_fp8", "hpu::cast_from_fp8.scalar", runtime=["scale"])
def cast_from_fp8(
    c: Call, x: Node, scale: Operand | None, out_dtype: None, scale_shape: Sequence[int] | None = None
) -> Node:
    return _scaled(c, x, scale, c.dtype, scale_shape)


@overload("hpu::fp8_gemm_v2", "hpu::fp8_gemm_v2.scalar", runtime=["A_scale_inv", "B_scale_inv"])
def fp8_gemm(
    c: Call, x: Node, trans_x: bool, y: Node, trans_y: bool, d: Node | None, out_dtype: None,
    x_scale: Operand | None = None, y_scale: Operand | None = None, bias: Node | None = None, accumulate: bool = False,
    y_scale_shape: Sequence[int] | None = None,
) -> Node:  # fmt: skip
    """The products of matrices, in batches that are broadcast; scales, bias and `d` are applied to sums in float32."""
    b = c.b
    x, y = (_turned(c, node) if turned and node.rank > 1 else node for node, turned in ((x, trans_x), (y, trans_y)))
    if x.rank == 1:
        x = b.reshape(x, (1, *x.shape))
    if y.rank == 1:
        y = b.reshape(y, (*y.shape, 1))
    vector = len(c.shape) < max(x.rank, y.rank)
    batch = () if vector and max(x.rank, y.rank) == 2 else c.shape[: max(x.rank, y.rank) - 2]
    x, y = (b.expand(n, (*batch, *n.shape[-2:])) if n.rank > 2 or batch else n for n in (x, y))
    labels = tuple(range(3, 3 + len(batch)))
    end = float8.largest(DType.F8E4M3)
    spec = Contraction((*labels, 0, 1), (*labels, 1, 2), (*labels, 0, 2), largest=end if end < LARGEST_E4M3 else None)
    sums = b.contract(x, y, spec, DType.F32)
    total = c.term(b.reshape(sums, c.shape), DType.F32)
    for scale, shape in ((x_scale, None), (y_scale, y_scale_shape)):
        if scale is not None:
            factor = c.node(scale, DType.F32)
            total = total * c.term(b.reshape(factor, shape) if shape is not None else factor, DType.F32)
    if bias is not None:
        total = total + c.term(bias, DType.F32)
    if accumulate and d is not None:
        total = total + c.term(d, DType.F32)
    return total.node


def _turned(c: Call, x: Node) -> Node:
    """Matrices turned over."""
    return c.b.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
