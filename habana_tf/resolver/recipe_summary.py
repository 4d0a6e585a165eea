"""What a line of a listing says of a recipe: what it takes, its precision, and which ops are its work."""

from __future__ import annotations

import json
from collections import Counter

from habana_tf.cluster.cluster import Cluster
from habana_tf.compiler import compressed
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program

MOST_INPUTS = 6
MOST_OPS = 6


def takes(cluster: Cluster, program: Program) -> str:
    """The first inputs with their types and shapes: data with axes first, so that the batch is among them, then
    variables and single numbers."""
    variable = [arg.variable for arg in cluster.inputs]
    if len(variable) != len(program.inputs):  # of a form for all shapes
        variable = [False] * len(program.inputs)
    inputs = list(zip(program.inputs, variable, strict=True))
    first = [n for n, is_variable in inputs if n.shape and not is_variable]
    rest = [n for n, is_variable in inputs if not n.shape or is_variable]
    return ", ".join(f"{n.dtype.label}[{','.join(map(str, n.shape))}]" for n in [*first, *rest][:MOST_INPUTS])


def precision(program: Program) -> str:
    """bf16 where any tensor is, else the type of most floats; empty for a program without floats."""
    types = Counter(n.dtype for n in program.nodes() if n.dtype.is_float)
    found = DType.BF16 if types[DType.BF16] else max(types, key=types.__getitem__, default=None)
    return "" if found is None else found.label


def work(cluster: Cluster, described: bytes) -> dict[str, int]:
    """The ops with most floating-point operations, in percent of all; with open sizes, of as many products.

    described: the kernels as `compiler.describe` packs them.

    A kernel counts for the op whose core it has, else for the first of its ops.
    """
    kernels = json.loads(compressed.take(described))
    known = all(isinstance(k["flops"], int) for k in kernels)
    flops: Counter[str] = Counter()
    for k in kernels:
        ops = [k["core"]] if "core" in k else k["ops"]
        if ops:
            flops[cluster.nodes[ops[0]].op] += k["flops"] if known else k["engine"] == "MME"
    whole = flops.total()
    return {op: round(100 * n / whole) for op, n in flops.most_common(MOST_OPS) if n and round(100 * n / whole)}
