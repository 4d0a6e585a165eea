"""Which ops are sums of products: work of the card's MME, and the ops that take longest to compile."""

from __future__ import annotations

import re

_PRODUCTS = frozenset({"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"})
_OP = re.compile(rb"\x12([\x04-\x7f])(\w*(?:MatMul|Einsum|Conv)\w*)")
"""A NodeDef's field `op`, of a name that may be a product's: the field's tag, the length, the name."""


def is_product(op: str) -> bool:
    """Whether an op is sums of products: a matrix product, a convolution, or a gradient of one."""
    return op in _PRODUCTS or "Conv" in op


def count(graph_def: bytes) -> int:
    """How many products a serialized GraphDef has, without parsing it."""
    return sum(
        len(op[2]) >= op[1][0] and is_product(op[2][: op[1][0]].decode("ascii", "replace"))
        for op in _OP.finditer(graph_def)
    )
