"""Products of tensors: each is one CONTRACT, whose labels say which axis is which.

Operands are never permuted or reshaped to please the product. bfloat16 and float32 products are accumulated in float32
and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Node


def product(
    b: Builder, x: Node, y: Node, la: Sequence[int], lb: Sequence[int], out: Sequence[int],
    repeated: Sequence[int] = (), dtype: DType | None = None,
) -> Node:  # fmt: skip
    """CONTRACT with these labels; where one of `repeated` has size 1 in one operand only, that operand repeats.

    dtype: of the result, by default that of the operands, which have one.
    """
    sizes: dict[int, list[Extent]] = {}
    for label, n in chain(zip(la, x.shape, strict=True), zip(lb, y.shape, strict=True)):
        sizes.setdefault(label, []).append(n)
    stretched = {n for n in repeated if len({*sizes.get(n, [])}) == 2 and 1 in sizes[n]}

    def without_ones(x: Node, labels: Sequence[int]) -> tuple[Node, tuple[int, ...]]:
        left = [(label, n) for label, n in zip(labels, x.shape, strict=True) if not (label in stretched and n == 1)]
        return b.reshape(x, [n for _, n in left]), tuple(label for label, _ in left)

    x, kx = without_ones(x, la)
    y, ky = without_ones(y, lb)
    return b.contract(x, y, Contraction(kx, ky, tuple(out), x.dtype.accumulator), dtype)
