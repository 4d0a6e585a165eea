"""Overloads that move elements: joins, gathers, and counts."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload


@overload("cat")
def cat(c: Call, tensors: Sequence[Node], dim: int = 0) -> Node:
    parts = [c.node(t, c.dtype) for t in tensors if t.shape != (0,) or len(c.shape) == 1]
    return c.b.concat(parts, dim % len(c.shape)) if parts else c.b.const(0, c.dtype, c.shape)


@overload("index_select")
def index_select(c: Call, x: Node, dim: int, index: Node) -> Node:
    b = c.b
    if not x.rank:
        return b.expand(x, c.shape)
    axis = dim % x.rank
    c.in_range("index", index, x.shape[axis])
    out = b.gather(x, [b.reshape(index, (index.numel,))], [axis])  # its first axis is that of the index
    return b.permute(out, (*range(1, axis + 1), 0, *range(axis + 1, x.rank)))


@overload("embedding_dense_backward", floats=True)
def embedding_backward(
    c: Call, dy: Node, indices: Node, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Node:
    b = c.b
    if scale_grad_by_freq:
        raise c.refused("gradients divided by how often a row occurs")
    flat, width = b.reshape(indices, (indices.numel,)), dy.shape[-1]
    if padding_idx >= 0:  # its rows go nowhere
        nowhere = b.const(num_weights, flat.dtype, flat.shape)
        flat = b.select(b.binary("eq", flat, b.const(padding_idx, flat.dtype)), nowhere, flat)
    base = b.const(0, DType.F32, (num_weights, width))
    rows = b.reshape(c.term(dy).node, (indices.numel, width))
    return b.scatter(base, rows, [flat], [0], "add")
