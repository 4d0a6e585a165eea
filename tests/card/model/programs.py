"""Small lowered clusters made by hand, whose times can be worked out with a pencil.

Numbers of Gaudi2 that the tests go by, from `hardware/chips.py`: 131,072 multiply-adds of bf16 per cycle at 1.65 GHz,
24 vector processors of 256 bytes at 2 GHz, HBM of 1.945 TB/s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.parameters import Parameters
from habana_tf.cluster.cluster import Arg
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Program
from tests.cluster.recorded import Recorded

PLAIN = Parameters(hidden=0.5, tpc_rate=1.0, early=0.0, launch=0.0, skew=0.0)
"""Half of the shorter engine's work hidden, vector processors at their peak, no pauses."""
MATMUL = Contraction((0, 1), (1, 2), (0, 2))
MIB = 1 << 20


def cluster(b: Builder, ops: Sequence[Node], outputs: Sequence[int], updates: Collection[int] = ()) -> Lowered:
    """A cluster whose op number k gave ops[k]; outputs are such numbers, of which `updates` are new values of
    variables. What an op computes has its number as origin only if the builder was told so."""
    inputs = [Arg(n.dtype, False, f"input {k}") for k, n in enumerate(b.inputs)]
    results = [Arg(ops[k].dtype, False, f"op {k}", variable=k in updates) for k in outputs]
    made = {(-1, k): n for k, n in enumerate(b.inputs)} | {(k, 0): n for k, n in enumerate(ops)}
    refs = [(k, 0) for k in outputs]
    return Lowered(Recorded("made", inputs, [], refs, results), Program(b.inputs, [ops[k] for k in outputs]), made)


def product_and_relu(rows: int = 4096) -> Lowered:
    """max(x w, 0) in bf16 with x of rows x 1024 and w of 1024 x 1024: a product whose result stays in SRAM, and a
    kernel that follows it."""
    b = Builder()
    x, w = b.input((rows, 1024), DType.BF16), b.input((1024, 1024), DType.BF16)
    b.origin = 0
    y = b.contract(x, w, MATMUL)
    b.origin = 1
    z = b.binary("max", y, b.const(0, DType.BF16))
    return cluster(b, [y, z], [1])
