"""Results of a product's kernel with work of a test's own behind them; targets with their names."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.compiler.codegen import emit
from habana_tf.compiler.codegen.tiles.epilogue import PrefetchLine, SumVector
from habana_tf.compiler.contraction import ContractSpec
from habana_tf.hardware.cpu import Target, host
from habana_tf.ir.dtypes import DType
from tests.compiler.contraction_cases import BF16, F32, TARGETS

# What has the host's instructions differs from its own target in bf16 only.
KINDS = [(d, t) for t in TARGETS for d in (F32, BF16) if d is BF16 or t is TARGETS[0] or t.isa is not host().isa]


def named(x: DType | Target) -> str:
    return x.label if isinstance(x, DType) else f"{x.llvm_cpu}-{x.bf16_products}"


class ScaleAndBias:
    """relu(sum * 2 + bias), stored twice: a checked use of everything a Point offers."""

    buffers = ("bias", "first", "where")
    sums = None

    def __init__(self, spec: ContractSpec, bias: tuple[int, ...]) -> None:
        self.spec, self.bias = spec, bias

    def begin(self, fn: emit.Function, pointers: list[str]) -> None:
        self.pointers = pointers

    def lines(self, fn: emit.Function, p: SumVector) -> list[PrefetchLine]:
        return [PrefetchLine(self.pointers[0], {label.key: 0 for label in p.tile.c.labels()})]

    def vector(self, fn: emit.Function, p: SumVector) -> Sequence[str]:
        assert p.lane_stride(self.bias) == 1
        vector = f"<{p.lanes} x float>"
        for lane in range(p.active):
            x = fn.op(f"extractelement {vector} {p.value}, i32 {lane}")
            b = fn.load("float", fn.offset(self.pointers[0], "float", p.offset(self.bias, lane)), 4)
            y = fn.op(f"fadd float {fn.op(f'fmul float {x}, 2.0')}, {b}")
            out = p.offset(self.spec.out.strides, lane)
            fn.store("float", y, fn.offset(self.pointers[1], "float", out), 4)
            code = "0"
            for label, stride in enumerate(self.spec.out.strides):
                if stride:
                    index = fn.add(p.index(label), lane if stride == 1 else 0)
                    code = fn.add(fn.mul(code, 100), index)
            fn.store("i64", code, fn.offset(self.pointers[2], "i64", out), 8)
        return ()
