"""The scalar functions of MAP as LLVM IR, on scalars or vectors.

Functions of booleans and integers, conversions between types and to and from memory; functions of floats are in
`float_math.py` and `circular_math.py`.
"""

from __future__ import annotations

from habana_tf.compiler.codegen.circular_math import CircularMath
from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.float8 import FLOAT16, FORMATS, Float8
from habana_tf.compiler.codegen.lanes import float_literal, memory_type, register_type
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir.dtypes import DType

_INT_BINARY = frozenset({"add", "sub", "mul", "and", "or", "xor"})
_INT_COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_BOOL_BINARY = {
    "and": "and", "or": "or", "xor": "xor", "ne": "xor", "mul": "and", "max": "or", "min": "and", "add": "or",
}  # fmt: skip
_BOOL_COMPARE = {"eq": "eq", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}


class Scalar(CircularMath, Float8):
    """Emits scalar functions on `lanes` lanes (1: scalars)."""

    # -- the functions --------------------------------------------------------------------------------------

    def apply(self, name: str, args: list[Value], source: DType, out: DType) -> Value:
        """A function of ir.UNARY, ir.BINARY or "select". source: the type of the first data operand. Raises Unfit if
        the type does not have the function."""
        lane = register_type(source)
        if name == "select":
            return self.choose(args[0], args[1], args[2], register_type(out))
        if name == "cast":
            return self.cast(args[0], source, out)
        if name == "stored":
            return self.round(args[0], source)
        if name == "bitcast":
            return self.bitcast(args[0], source, out)
        if source is DType.BOOL:
            return self._bool(name, args)
        if source.is_float:
            if lane != "float":
                raise Unfit(f"{name} of {source}")
            return self.float_function(name, args)
        return self._int(name, args, lane, source.kind == "i")

    def _bool(self, name: str, args: list[Value]) -> Value:
        if name == "not":
            return self.op("xor", args[0], self.constant("true", "i1"), "i1")
        if name in _BOOL_BINARY:
            return self.op(_BOOL_BINARY[name], args[0], args[1], "i1")
        if name in _BOOL_COMPARE:
            return self.op(f"icmp {_BOOL_COMPARE[name]}", args[0], args[1], "i1")
        raise Unfit(f"{name} of bool")

    def _int(self, name: str, args: list[Value], lane: str, signed: bool) -> Value:
        a = args[0]
        s = "s" if signed else "u"
        zero = self.i(0, lane)
        if name in _INT_BINARY:
            return self.op(name, a, args[1], lane)
        if name in _INT_COMPARE:
            sign = "" if name in ("eq", "ne") else s
            return self.op(f"icmp {sign}{name}", a, args[1], lane)
        if name in ("div", "floordiv", "floormod", "truncmod"):
            return self._divide(name, a, args[1], lane, signed)
        if name in ("max", "min"):
            return self.intrinsic(s + name, a, args[1], lane=lane)
        if name in ("shl", "shr"):
            return self._shift(name, a, args[1], lane, signed)
        if name == "mulhi":
            wide = f"i{2 * int(lane[1:])}"
            ext = "sext" if signed else "zext"
            product = self.op("mul", self.convert(ext, a, lane, wide), self.convert(ext, args[1], lane, wide), wide)
            return self.convert("trunc", self.op("lshr", product, self.i(int(lane[1:]), wide), wide), wide, lane)
        if name == "neg":
            return self.op("sub", zero, a, lane)
        if name == "abs":
            negative = self.op("icmp slt", a, zero, lane)
            return self.choose(negative, self.op("sub", zero, a, lane), a, lane) if signed else a
        if name == "sign":
            positive = self.choose(self.op("icmp ne", a, zero, lane), self.i(1, lane), zero, lane)
            if not signed:
                return positive
            return self.choose(self.op("icmp slt", a, zero, lane), self.i(-1, lane), positive, lane)
        if name == "invert":
            return self.op("xor", a, self.i(-1, lane), lane)
        if name == "pow":
            return self._int_pow(a, args[1], lane)
        if name in ("floor", "ceil", "rint", "trunc"):
            return a
        raise Unfit(f"{name} of integers")

    def _shift(self, name: str, a: Value, b: Value, lane: str, signed: bool) -> Value:
        bits = int(lane[1:])
        inside = self.op("icmp ult", b, self.i(bits, lane), lane)
        safe = self.choose(inside, b, self.i(bits - 1, lane), lane)
        if name == "shl":
            return self.choose(inside, self.op("shl", a, safe, lane), self.i(0, lane), lane)
        shifted = self.op("ashr" if signed else "lshr", a, safe, lane)
        return shifted if signed else self.choose(inside, shifted, self.i(0, lane), lane)

    def _divide(self, name: str, a: Value, b: Value, lane: str, signed: bool) -> Value:
        """Integer division; by zero gives 0, and the lowest number by -1 wraps."""
        zero, one = self.i(0, lane), self.i(1, lane)
        is_zero = self.op("icmp eq", b, zero, lane)
        safe = self.choose(is_zero, one, b, lane)
        if signed:
            minus = self.op("icmp eq", b, self.i(-1, lane), lane)
            safe = self.choose(minus, one, safe, lane)
        s = "s" if signed else "u"
        quotient = self.op(f"{s}div", a, safe, lane)
        rest = self.op(f"{s}rem", a, safe, lane)
        if signed:
            quotient = self.choose(minus, self.op("sub", zero, a, lane), quotient, lane)
            rest = self.choose(minus, zero, rest, lane)
        if signed and name in ("floordiv", "floormod"):
            differ = self.op("icmp slt", self.op("xor", a, b, lane), zero, lane)
            adjust = self.op("and", differ, self.op("icmp ne", rest, zero, lane), "i1")
            quotient = self.choose(adjust, self.op("sub", quotient, one, lane), quotient, lane)
            rest = self.choose(adjust, self.op("add", rest, b, lane), rest, lane)
        out = quotient if name in ("div", "floordiv") else rest
        return self.choose(is_zero, zero, out, lane)

    def _int_pow(self, a: Value, b: Value, lane: str) -> Value:
        """Exponentiation by squaring over the bits of an unsigned exponent."""
        result, base, zero = self.i(1, lane), a, self.i(0, lane)
        bits = int(lane[1:])
        for bit in range(bits):
            mask = self.i(1 << bit if bit + 1 < bits else -(1 << bit), lane)
            on = self.op("icmp ne", self.op("and", b, mask, lane), zero, lane)
            result = self.choose(on, self.op("mul", result, base, lane), result, lane)
            base = self.op("mul", base, base, lane)
        return result

    # -- conversions ----------------------------------------------------------------------------------------

    def cast(self, a: Value, source: DType, out: DType) -> Value:
        s, t = register_type(source), register_type(out)
        if out is DType.BOOL:
            if source.is_float:
                return self.op("fcmp une", a, self.constant(float_literal(0.0, s), s), s)
            return a if source is DType.BOOL else self.op("icmp ne", a, self.i(0, s), s)
        if source is DType.BOOL:
            return self.convert("uitofp" if out.is_float else "zext", a, "i1", t)
        if source.is_float and out.is_float:
            if s != t:
                return self.convert("fpext" if t == "double" else "fptrunc", a, s, t)
            return self.round(a, out)
        if source.is_float:
            wide = t if int(t[1:]) >= 32 else "i32"
            name = f"llvm.fpto{'si' if out.kind == 'i' or wide != t else 'ui'}.sat"
            kind = {"float": "f32", "double": "f64"}[s]
            v = "" if self.lanes == 1 else f"v{self.lanes}"
            r = self.fn.call(self.type(wide), f"{name}.{v}{wide}.{v}{kind}", (self.type(s), a))
            return r if wide == t else self.convert("trunc", r, wide, t)
        if out.is_float:
            return self.round(self.convert("sitofp" if source.kind == "i" else "uitofp", a, s, t), out)
        if int(s[1:]) == int(t[1:]):
            return a
        if int(s[1:]) > int(t[1:]):
            return self.convert("trunc", a, s, t)
        return self.convert("sext" if source.kind == "i" else "zext", a, s, t)

    def round(self, a: Value, dtype: DType) -> Value:
        """A float register rounded to `dtype` (nearest even)."""
        if not dtype.is_short:
            return a
        if dtype is DType.BF16 and not self.fn.bf16:  # without a way through 16 bits, which crosses lanes twice
            if a in self.fn.rounded:
                return a
            word = self.op("and", self._rounded(a), self.i(-0x10000), "i32")
            return self._exact(self.convert("bitcast", word, "i32", "float"))
        return self.from_memory(self.to_memory(a, dtype), dtype)

    def bitcast(self, a: Value, source: DType, out: DType) -> Value:
        memory = self.to_memory(a, source)
        s, t = memory_type(source), memory_type(out)
        return self.from_memory(memory if s == t else self.convert("bitcast", memory, s, t), out)

    def to_memory(self, a: Value, dtype: DType) -> Value:
        """A register value in its type in memory."""
        if dtype is DType.BOOL:
            return self.convert("zext", a, "i1", "i8")
        if dtype is DType.BF16:
            return self._narrow(a)
        if dtype is DType.F16:
            if self.fn.float16:
                return self.convert("fptrunc", a, "float", "half")
            return self.convert("bitcast", self.to_code(a, FLOAT16), "i16", "half")
        return self.to_code(a, FORMATS[dtype]) if dtype in FORMATS else a

    def _narrow(self, a: Value) -> Value:
        """float to bfloat16, nearest even."""
        if self.fn.bf16:
            return self.convert("bitcast", self.convert("fptrunc", a, "float", "bfloat"), "bfloat", "i16")
        word = self.convert("bitcast", a, "float", "i32") if a in self.fn.rounded else self._rounded(a)
        return self.convert("trunc", self.op("lshr", word, self.i(16), "i32"), "i32", "i16")

    def _exact(self, a: Value) -> Value:
        """A float register that has no more digits than bfloat16."""
        self.fn.rounded.add(a)
        return a

    def _rounded(self, a: Value) -> Value:
        """A float's word, whose upper half is the nearest bfloat16; for CPUs without an instruction."""
        bits = self.convert("bitcast", a, "float", "i32")
        odd = self.op("and", self.op("lshr", bits, self.i(16), "i32"), self.i(1), "i32")
        up = self.op("add", self.op("add", bits, self.i(0x7FFF), "i32"), odd, "i32")
        quiet = self.op("or", bits, self.i(0x400000), "i32")
        return self.choose(self.op("fcmp uno", a, a), quiet, up, "i32")

    def from_memory(self, a: Value, dtype: DType) -> Value:
        if dtype is DType.BOOL:
            return self.op("icmp ne", a, self.i(0, "i8"), "i8")
        if dtype is DType.BF16:
            bits = self.op("shl", self.convert("zext", a, "i16", "i32"), self.i(16), "i32")
            return self._exact(self.convert("bitcast", bits, "i32", "float"))
        if dtype is DType.F16:
            if self.fn.float16:
                return self.convert("fpext", a, "half", "float")
            return self.from_code(self.convert("bitcast", a, "half", "i16"), FLOAT16)
        return self._exact(self.from_float8(a, dtype)) if dtype in FORMATS else a
