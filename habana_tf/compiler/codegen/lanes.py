"""Operations of LLVM IR on scalars or vectors of lanes: constants, arithmetic, conversions, calls.

One lane is a scalar. Floats of 8 and 16 bits are `float` in registers, booleans `i1`.
"""

from __future__ import annotations

import math
import re
import struct

from habana_tf.compiler.codegen.emit import Function, Value, everywhere
from habana_tf.ir.dtypes import DType


def register_type(dtype: DType) -> str:
    """The LLVM type of a lane in registers."""
    return "float" if dtype.is_short else dtype.llvm


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory.

    bfloat16 is i16, and 8-bit floats are i8: on CPUs without instructions for `bfloat` LLVM would call functions of
    the compiler's run-time library, which is not linked.
    """
    return {DType.BOOL: "i8", DType.BF16: "i16"}.get(dtype, dtype.llvm)


def float_literal(value: float, type_: str = "float") -> str:
    """An LLVM constant for a Python float (rounded to fp32 first unless the type is double)."""
    if type_ == "float":
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return "0x" + struct.pack(">d", value).hex().upper()


def literal(value: float | int | bool, dtype: DType) -> str:
    if dtype.is_float:
        return float_literal(float(value), register_type(dtype))
    return str(int(value))


def number_of(value: Value) -> float | None:
    """The number of a constant float, unless it is NaN; else None."""
    found = re.fullmatch(r"(?:splat \(float )?0x([0-9A-F]{16})\)?", value)
    if found is None:
        return None
    (number,) = struct.unpack(">d", bytes.fromhex(found[1]))
    return None if math.isnan(number) else float(number)


class LaneOps:
    """Emits operations on `lanes` lanes (1: scalars)."""

    def __init__(self, fn: Function, lanes: int) -> None:
        self.fn = fn
        self.lanes = lanes

    def type(self, lane: str) -> str:
        return lane if self.lanes == 1 else f"<{self.lanes} x {lane}>"

    def constant(self, text: str, lane: str) -> Value:
        return text if self.lanes == 1 else everywhere(lane, text)

    def f(self, value: float) -> Value:
        return self.constant(float_literal(value), "float")

    def i(self, value: int, lane: str = "i32") -> Value:
        return self.constant(str(value), lane)

    def op(self, name: str, a: Value, b: Value, lane: str = "float") -> Value:
        return self.fn.op(f"{name} {self.type(lane)} {a}, {b}")

    def convert(self, name: str, a: Value, source: str, target: str) -> Value:
        return self.fn.op(f"{name} {self.type(source)} {a} to {self.type(target)}")

    def choose(self, c: Value, a: Value, b: Value, lane: str = "float") -> Value:
        return self.fn.op(f"select {self.type('i1')} {c}, {self.type(lane)} {a}, {self.type(lane)} {b}")

    def intrinsic(self, name: str, *args: Value, lane: str = "float") -> Value:
        kind = {"float": "f32", "double": "f64"}.get(lane, lane)
        suffix = kind if self.lanes == 1 else f"v{self.lanes}{kind}"
        t = self.type(lane)
        return self.fn.call(t, f"llvm.{name}.{suffix}", *((t, a) for a in args))

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("fmuladd", a, b, c)

    def horner(self, x: Value, *coefficients: float) -> Value:
        acc = self.f(coefficients[0])
        for c in coefficients[1:]:
            acc = self.fma(acc, x, self.f(c))
        return acc

    def library(self, name: str, x: Value) -> Value:
        if self.lanes == 1:
            return self.fn.call("float", name, ("float", x))
        t = self.type("float")
        out = "poison"
        for lane in range(self.lanes):
            one = self.fn.op(f"extractelement {t} {x}, i64 {lane}")
            y = self.fn.call("float", name, ("float", one))
            out = self.fn.op(f"insertelement {t} {out}, float {y}, i64 {lane}")
        return out
