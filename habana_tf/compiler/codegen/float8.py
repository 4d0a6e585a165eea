"""8-bit floats, and float16, in LLVM IR: from float32 (nearest, ties to even) and back, on scalars or vectors.

No CPU that we generate code for has instructions for 8 bits, and numbers below the smallest normal one must not depend
on the thread's mode for denormals. So conversions are made of integer operations, and of those from float16 where the
CPU has them, which no mode changes. Where it has none, LLVM would call functions of the compiler's run-time library,
which is not linked, and float16 is converted as 8 bits are.

    format         sign exponent mantissa   bias   largest   above it
    float8_e4m3fn  1    4        3          7      448       the largest; there are no infinities
    float8_e5m2    1    5        2          15     57344     infinity
    float16        1    5        10         15     65504     infinity

The formats of 8 bits are those of arXiv 2209.05433; what becomes of numbers above the largest is what PyTorch does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.ir.dtypes import DType


@dataclass(frozen=True)
class Format:
    """mantissa: its bits. bias: of the exponent. above: the code of what is rounded to more than the largest number.
    nan: the code of NaN."""

    mantissa: int
    bias: int
    above: int
    nan: int = 0x7F
    bits: int = 8

    @property
    def lane(self) -> str:
        """The LLVM type of a code."""
        return f"i{self.bits}"

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

    def code(self, number: float) -> int:
        """The code of a number of the format that is positive and has a leading one."""
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        return int(bits >> self.shift) - self.rebias


FLOAT16 = Format(10, 15, 0x7C00, 0x7E00, 16)
FORMATS = {DType.F8E4M3: Format(3, 7, 0x7E), DType.F8E5M2: Format(2, 15, 0x7C)}
F16_SCALE = 2.0**8
"""The difference of the biases of float16 and float8_e4m3fn, as a factor."""


class Float8(LaneOps):
    """Emits conversions on `lanes` lanes (1: scalars)."""

    def to_code(self, a: Value, f: Format) -> Value:
        """A float register as the code of a format."""
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
        code = self.choose(self.op("fcmp uno", a, a), self.i(f.nan), code, "i32")
        sign = self.op("and", self.op("lshr", bits, self.i(32 - f.bits), "i32"), self.i(1 << f.bits - 1), "i32")
        return self.convert("trunc", self.op("or", code, sign, "i32"), "i32", f.lane)

    def from_float8(
        self, a: Value, dtype: DType, largest: float | None = None, scale: float = 1.0, signs: bool = True
    ) -> Value:
        """i8 as a float register. largest: of float8_e4m3fn, if what is beyond it is NaN; None: all that the format
        has. scale: a power of two to multiply by. signs: whether NaN keeps its sign. Each operation counts: a product
        of few rows does little else with its weight."""
        f = FORMATS[dtype]
        last = f.above if largest is None else f.code(largest)
        if not self.fn.float16:
            wide = self.from_code(a, f, None if dtype is DType.F8E5M2 else last)
        else:
            wide = self._by_float16(a, dtype, last, signs)
            scale *= F16_SCALE if dtype is DType.F8E4M3 else 1
        return wide if scale == 1 else self.op("fmul", wide, self.f(scale))

    def _by_float16(self, a: Value, dtype: DType, last: int, signs: bool) -> Value:
        """By way of float16, which has the exponent of float8_e5m2, and a bit more than float8_e4m3fn's: of that
        numbers come out smaller by F16_SCALE."""
        if dtype is DType.F8E5M2:
            half = self.op("shl", self.convert("zext", a, "i8", "i16"), self.i(8, "i16"), "i16")
            return self._widened(half)
        code = self.op("shl", self.convert("sext", a, "i8", "i16"), self.i(7, "i16"), "i16")  # two bits are the sign
        size = self.op("and", code, self.i(0x3FFF, "i16"), "i16")
        beyond = self.convert("sext", self.op("icmp sgt", size, self.i(last << 7, "i16"), "i16"), "i1", "i16")
        nan = self.op("and", beyond, self.i(0x7E00, "i16"), "i16") if signs else beyond
        return self._widened(self.op("or", self.op("and", code, self.i(~0x4000, "i16"), "i16"), nan, "i16"))

    def _widened(self, half: Value) -> Value:
        """The bits of float16 as a float register."""
        return self.convert("fpext", self.convert("bitcast", half, "i16", "half"), "half", "float")

    def from_code(self, a: Value, f: Format, last: int | None = None) -> Value:
        """The code of a format as a float register. last: that of the largest number, beyond which all are NaN; None:
        the highest exponent has infinity and NaN."""
        code = self.op("shl", self.convert("sext", a, f.lane, "i32"), self.i(f.shift), "i32")  # where float32 has it
        size = self.op("and", code, self.i((1 << f.bits - 1) - 1 << f.shift), "i32")
        led = self.convert("bitcast", self.op("add", size, self.i(127 - f.bias << 23), "i32"), "i32", "float")
        # A number without a leading one is twice what it is with one, less the smallest number that has one. Of all
        # others that is more than they are.
        small = self.fma(led, self.f(2.0), self.f(-(2.0 ** (1 - f.bias))))
        bits = self.convert("bitcast", self.choose(self.op("fcmp olt", led, small), led, small), "float", "i32")
        if last is None:
            beyond = self.op("icmp sge", size, self.i(f.above << f.shift), "i32")
            bits = self.choose(beyond, self.op("add", size, self.i(2 * (127 - f.bias) << 23), "i32"), bits, "i32")
        else:
            beyond = self.op("icmp sgt", size, self.i(last << f.shift), "i32")
            bits = self.choose(beyond, self.i(0x7FC00000), bits, "i32")
        sign = self.op("and", code, self.i(-(1 << 31)), "i32")
        return self.convert("bitcast", self.op("or", bits, sign, "i32"), "i32", "float")

    def _bits_of(self, value: float) -> Value:
        """The bits of a float32 number."""
        return self.i(int.from_bytes(struct.pack("<f", value), "little"))
