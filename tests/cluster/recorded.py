"""A front end without a framework: a list of calls becomes a cluster, and runs on NumPy arrays.

ops = [("matmul", (-1, 0), (-1, 1)), ("tanh", (0, 0))]
run(recorded("layer", 2, ops), [x, w])
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from habana_tf.cluster.cluster import Arg, Cluster, ClusterOp
from habana_tf.cluster.lowering_context import LoweringContext
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.ir.primitives import Contraction, Node


class Call(ClusterOp):
    """A scalar function of tensors of one shape, or a product of matrices."""

    def lower(self, inputs: list[Node], context: LoweringContext) -> Sequence[Node]:
        """See `ClusterOp.lower`."""
        if self.op == "matmul":
            left, right = inputs
            return [context.b.contract(left, right, Contraction((0, 1), (1, 2), (0, 2)))]
        return [context.b.map(self.op, *inputs)]


@dataclass(eq=False)
class Recorded(Cluster):
    """A list of calls on float32. data: the arguments of `recorded` as JSON."""

    @property
    def content(self) -> str:
        """See `Cluster.content`."""
        return hashlib.sha256(json.dumps(json.loads(self.data)[1:]).encode()).hexdigest()

    def computed(self) -> list[tuple[str, object]]:
        """See `Cluster.computed`: the lowerings are in this file."""
        return [*super().computed(), ("lowerings", hashlib.sha256(Path(__file__).read_bytes()).hexdigest())]

    @classmethod
    def read(cls, data: bytes) -> Recorded:
        """See `Cluster.read`."""
        name, inputs, ops = json.loads(data)
        return recorded(name, inputs, [(op, *map(tuple, refs)) for op, *refs in ops])


def recorded(name: str, inputs: int, ops: Sequence[tuple[Any, ...]]) -> Recorded:
    """The cluster of calls (function, its arguments ...), whose result is that of the last one."""
    nodes = [Call(k, str(op), f"{name}/{op}_{k}", tuple(refs)) for k, (op, *refs) in enumerate(ops)]
    args = [Arg(DType.F32, False, f"input {k}") for k in range(inputs)]
    result = [Arg(DType.F32, False, "result")]
    return Recorded(name, args, nodes, [(len(ops) - 1, 0)], result, [], json.dumps([name, inputs, ops]).encode())


def run(cluster: Recorded, arrays: Sequence[Any]) -> Any:
    """The result of a launch on these arrays, flat."""
    from habana_tf._native import _bridge
    from habana_tf.resolver.resolve import resolve

    met = [(from_label(a.dtype.name).number, a.shape, None) for a in arrays]
    (out,) = _bridge.run_program(resolve(cluster, met), list(arrays))
    return out.view(np.float32)
