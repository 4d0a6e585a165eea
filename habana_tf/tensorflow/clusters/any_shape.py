"""Generalizes the shapes of an eager op to symbolic extents, so that one recipe serves all of them.

An elementwise op only cares which axes of its inputs are walked and which are repeated. Neighbouring axes of one
pattern are one axis, and its extent is a symbol:

    [32, 26, 26, 8] + [8]         is  [s0, s1] + [s1]    with s0 = 21632, s1 = 8
    [5, 7] * []                   is  [s0] * []          with s0 = 35

Fill and random ops produce s0 elements, whatever their shape.

An op with one value per channel, the last axis, walks rows and channels, whatever the rows stand for: a bias, or batch
normalization by statistics that are given.

    [32, 26, 26, 8], [8]          is  [s0, s1], [s1]  with s0 = 21632, s1 = 8

So does an op on rows, a softmax say: each is by itself. A padding keeps its axes; which of them are padded is in the
program, how long they are and by how much is not.

    [1, 80, 80, 96] by [[0, 0], [0, 1], [0, 1], [0, 0]]     is  [s0, s1, s2, s3] by [[0, 0], [0, s4], [0, s5], [0, 0]]

"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from habana_tf.cluster.cluster import AnyShape
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.tensorflow.clusters.op import TensorFlowOp
from habana_tf.tensorflow.lowering.row import Row

WIDE, FEW = 128, 1 << 20
"""Channels from which a row of symbolic length is as quick as one of known length, and elements up to which it does
not matter: code for any shape loses some nanoseconds per row. Many short rows have a recipe for their shape."""
ROWS = 16
"""Rows from which each is work enough for one thread."""


def generalize(
    row: Row, node: TensorFlowOp, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]
) -> AnyShape | None:
    """The generic form of a launch of one op; None when these shapes have none (empty tensors, bad arguments).

    Nor have sizes with a product that no integer of generated code holds.

    Without leading axes of size 1, shapes that an op refuses beside each other may look as if they fitted: an op that
    does not broadcast ("same") has a generic form for inputs of one shape only.
    """
    form = _generalized(row, node, shapes, values)
    fits = form is None or (max(form.dims, default=0) <= ext.LARGEST and ext.overflow(form.result) is None)
    return form if fits else None


def _generalized(
    row: Row, node: TensorFlowOp, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]
) -> AnyShape | None:
    if row.generic == "same":
        return _elementwise(shapes, values) if len(set(shapes)) == 1 else None
    if row.generic == "elementwise":
        return _elementwise(shapes, values)
    if row.generic == "channels":
        return _by_channel(node, shapes, values)
    if row.generic == "rows":
        return _by_row(shapes, values)
    if row.generic == "padding":
        return _padded(node, shapes, values, row.fixed[0])
    return _filled(node, shapes, values, row.fixed[0])


def _elementwise(shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]) -> AnyShape | None:
    rank = max(map(len, shapes), default=0)
    wide = [(1,) * (rank - len(s)) + s for s in shapes]
    result = []
    for sizes in zip(*wide, strict=True):
        several = {n for n in sizes if n != 1}
        if len(several) > 1 or 0 in several:
            return None
        result.append(several.pop() if several else 1)
    dims: list[int] = []
    patterns: list[tuple[bool, ...]] = []
    for axis, n in enumerate(result):
        if n == 1:
            continue
        pattern = tuple(s[axis] != 1 for s in wide)
        if patterns and patterns[-1] == pattern:
            dims[-1] *= n
        else:
            patterns.append(pattern)
            dims.append(n)
    collapsed: list[tuple[Extent, ...]] = []
    for k in range(len(shapes)):
        axes: list[Extent] = [ext.sym(d) if p[k] else 1 for d, p in enumerate(patterns)]
        while axes and axes[0] == 1:
            axes.pop(0)
        collapsed.append(tuple(axes))
    return AnyShape(collapsed, list(values), dims, tuple(result))


def _by_channel(node: TensorFlowOp, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]) -> AnyShape | None:
    """Statistics that are not given are sums over the rows, which are worth code of their own for every shape."""
    x, *others = shapes
    if node.attrs.get("is_training") or str(node.attrs.get("data_format", "")).startswith("NC"):
        return None
    if len(x) < 2 or 0 in x or any(s != x[-1:] for s in others):
        return None
    if x[-1] < WIDE and math.prod(x) > FEW:
        return None
    channels = ext.sym(1)
    ones = () if node.op.startswith("BiasAdd") else (1,) * (len(x) - 2)  # others ask for images
    collapsed: list[tuple[Extent, ...]] = [(*ones, ext.sym(0), channels)]
    return AnyShape([*collapsed, *([(channels,)] * len(others))], list(values), [math.prod(x[:-1]), x[-1]], x)


def _by_row(shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]) -> AnyShape | None:
    """Few long rows are worth code that shares out each of them."""
    (x,) = shapes
    if len(x) < 2 or 0 in x or math.prod(x) > FEW or math.prod(x[:-1]) < ROWS < x[-1]:
        return None
    return AnyShape([(ext.sym(0), ext.sym(1))], list(values), [math.prod(x[:-1]), x[-1]], x)


def _padded(
    node: TensorFlowOp, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None], fixed: str
) -> AnyShape | None:
    import numpy as np

    _, at = node.inputs[node.arg_slices[fixed].start]
    x, paddings = shapes[0], values[at]
    if paddings is None or 0 in x or paddings.shape != (len(x), 2) or (paddings < 0).any():
        return None
    if x and x[-1] < WIDE and math.prod(x) > FEW:
        return None
    dims = [*x, *(int(n) for n in paddings.reshape(-1) if n)]
    symbols = iter([ext.sym(k) for k in range(len(x), len(dims))])
    by: Any = np.array([next(symbols) if n else 0 for n in paddings.reshape(-1)], dtype=object)
    collapsed: list[tuple[Extent, ...]] = [tuple(ext.sym(k) for k in range(len(x))), *shapes[1:]]
    result = tuple(n + int(a + b) for n, (a, b) in zip(x, paddings, strict=True))
    return AnyShape(collapsed, [by.reshape(-1, 2) if i == at else v for i, v in enumerate(values)], dims, result)


def _filled(
    node: TensorFlowOp, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None], fixed: str
) -> AnyShape | None:
    import numpy as np

    _, at = node.inputs[node.arg_slices[fixed].start]
    value = values[at]
    if value is None or value.ndim != 1 or (value <= 0).any():
        return None
    result = tuple(int(n) for n in value)
    symbolic = np.array([ext.sym(0)], dtype=object)
    return AnyShape(
        list(shapes), [symbolic if i == at else v for i, v in enumerate(values)], [math.prod(result)], result
    )  # fmt: skip
