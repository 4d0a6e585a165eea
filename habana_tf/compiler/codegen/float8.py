"""8-bit floats in LLVM IR: from float32 (nearest, ties to even) and back, on scalars or vectors.

Made of integer operations: no CPU that we generate code for has instructions for these formats, and numbers below
the smallest normal one must not depend on the thread's mode for denormals.

    format         sign exponent mantissa   bias   largest   above it
    float8_e4m3fn  1    4        3          7      448       the largest; there are no infinities
    float8_e5m2    1    5        2          15     57344     infinity

The two formats are those of arXiv 2209.05433; what becomes of numbers above the largest is what PyTorch does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.ir.dtypes import DType


@dataclass(frozen=True)
class Format:
    """mantissa: its bits. bias: of the exponent. above: the code of what is rounded to more than the largest number."""

    mantissa: int
    bias: int
    above: int

    @property
    def shift(self) -> int:
        """Bits of float32's mantissa that it lacks."""
        return 23 - self.mantissa

    @property
    def rebias(self) -> int:
        """The difference of float32's exponent and its own, at the place of its own."""
        return (127 - self.bias) << self.mantissa

    @property
    def step(self) -> float:
        """The smallest number, the distance of those without a leading one."""
        return 2.0 ** (1 - self.bias - self.mantissa)


FORMATS = {DType.F8E4M3: Format(3, 7, 0x7E), DType.F8E5M2: Format(2, 15, 0x7C)}
_NAN = 0x7F


class Float8(LaneOps):
    """Emits conversions on `lanes` lanes (1: scalars)."""

    def to_float8(self, a: Value, dtype: DType) -> Value:
        """A float register as i8."""
        f = FORMATS[dtype]
        bits = self.convert("bitcast", a, "float", "i32")
        size = self.op("and", bits, self.i(0x7FFFFFFF), "i32")
        odd = self.op("and", self.op("lshr", size, self.i(f.shift), "i32"), self.i(1), "i32")
        up = self.op("add", self.op("add", size, self.i((1 << f.shift - 1) - 1), "i32"), odd, "i32")
        normal = self.op("sub", self.op("lshr", up, self.i(f.shift), "i32"), self.i(f.rebias), "i32")
        normal = self.intrinsic("umin", normal, self.i(f.above), lane="i32")
        anchor = f.step * 2.0**23  # float32's numbers from here on are `step` apart: adding it rounds to steps
        sum_ = self.op("fadd", self.convert("bitcast", size, "i32", "float"), self.f(anchor))
        small = self.op("sub", self.convert("bitcast", sum_, "float", "i32"), self._bits_of(anchor), "i32")
        is_small = self.op("icmp ult", size, self._bits_of(f.step * 2**f.mantissa), "i32")
        code = self.choose(is_small, small, normal, "i32")
        code = self.choose(self.op("fcmp uno", a, a), self.i(_NAN), code, "i32")
        sign = self.op("and", self.op("lshr", bits, self.i(24), "i32"), self.i(0x80), "i32")
        return self.convert("trunc", self.op("or", code, sign, "i32"), "i32", "i8")

    def from_float8(self, a: Value, dtype: DType) -> Value:
        """i8 as a float register."""
        f = FORMATS[dtype]
        code = self.convert("zext", a, "i8", "i32")
        size = self.op("and", code, self.i(0x7F), "i32")
        normal = self.op("shl", self.op("add", size, self.i(f.rebias), "i32"), self.i(f.shift), "i32")
        steps = self.op("fmul", self.convert("uitofp", size, "i32", "float"), self.f(f.step))
        is_small = self.op("icmp ult", size, self.i(1 << f.mantissa), "i32")
        bits = self.choose(is_small, self.convert("bitcast", steps, "float", "i32"), normal, "i32")
        special = self.op("icmp ugt", size, self.i(f.above), "i32")
        bits = self.choose(special, self.i(0x7FC00000), bits, "i32")
        if dtype is DType.F8E5M2:
            infinite = self.op("icmp eq", size, self.i(f.above), "i32")
            bits = self.choose(infinite, self.i(0x7F800000), bits, "i32")
        sign = self.op("shl", self.op("and", code, self.i(0x80), "i32"), self.i(24), "i32")
        return self.convert("bitcast", self.op("or", bits, sign, "i32"), "i32", "float")

    def _bits_of(self, value: float) -> Value:
        """The bits of a float32 number."""
        return self.i(int.from_bytes(struct.pack("<f", value), "little"))
