"""The scalar functions of MAP as LLVM IR, on one lane or on a vector of lanes.

Values of the short floats (bfloat16, float16) are kept as `float` in registers; booleans as `i1`. Everything is
IEEE arithmetic without contraction outside these polynomials, so that a fused chain gives what its ops give one
by one. exp, log, tanh and
their relatives are polynomials good to about 2 units in the last place (coefficients of Cephes' single-precision
library, public domain); the rare functions call the C library lane by lane.
"""

from __future__ import annotations

import struct

from ..dtypes import DType
from .emit import Function, Value

_LIBRARY = {
    "asinh": "asinhf", "acosh": "acoshf", "atanh": "atanhf", "erf": "erff", "erfc": "erfcf", "lgamma": "lgammaf",
}  # fmt: skip
_INTRINSIC = {
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
    "cosh": "cosh", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "rint": "rint", "trunc": "trunc", "pow": "pow",
    "atan2": "atan2",
}  # fmt: skip
_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_INT_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def register_type(dtype: DType) -> str:
    """The LLVM type of one lane of a value in registers."""
    return "float" if dtype in (DType.BF16, DType.F16) else dtype.llvm


def memory_type(dtype: DType) -> str:
    """The LLVM type of one element in memory.

    bfloat16 is a plain word: without instructions for it LLVM calls functions of the compiler's run-time library,
    which nobody links, wherever it meets the type.
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


class Scalar:
    """Emits functions over `lanes` lanes (1: plain scalars)."""

    def __init__(self, fn: Function, lanes: int) -> None:
        self.fn = fn
        self.lanes = lanes

    # -- small helpers --------------------------------------------------------------------------------------

    def type(self, lane: str) -> str:
        return lane if self.lanes == 1 else f"<{self.lanes} x {lane}>"

    def constant(self, text: str, lane: str) -> Value:
        if self.lanes == 1:
            return text
        return "<" + ", ".join([f"{lane} {text}"] * self.lanes) + ">"

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

    # -- the functions --------------------------------------------------------------------------------------

    def apply(self, name: str, args: list[Value], source: DType, out: DType) -> Value:
        """`name` of ir.UNARY, ir.BINARY or "select"; `source` is the type of the first data operand."""
        lane = register_type(source)
        if name == "select":
            return self.choose(args[0], args[1], args[2], register_type(out))
        if name == "cast":
            return self.cast(args[0], source, out)
        if name == "bitcast":
            return self.bitcast(args[0], source, out)
        if source is DType.BOOL:
            return self._bool(name, args)
        if source.is_float:
            if lane != "float":
                raise NotImplementedError(f"{name} of {source}")
            return self._float(name, args)
        return self._int(name, args, lane, source.kind == "i")

    def _bool(self, name: str, args: list[Value]) -> Value:
        if name == "not":
            return self.op("xor", args[0], self.constant("true", "i1"), "i1")
        ops = {
            "and": "and",
            "or": "or",
            "xor": "xor",
            "ne": "xor",
            "mul": "and",
            "max": "or",
            "min": "and",
            "add": "or",
        }
        if name in ops:
            return self.op(ops[name], args[0], args[1], "i1")
        compare = {"eq": "eq", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
        if name in compare:
            return self.op(f"icmp {compare[name]}", args[0], args[1], "i1")
        raise NotImplementedError(f"{name} of bool")

    def _int(self, name: str, args: list[Value], lane: str, signed: bool) -> Value:
        a = args[0]
        s = "s" if signed else "u"
        zero = self.i(0, lane)
        if name in _INT_BINARY:
            return self.op(_INT_BINARY[name], a, args[1], lane)
        if name in _INT_COMPARE:
            sign = "" if name in ("eq", "ne") else s
            return self.op(f"icmp {sign}{_INT_COMPARE[name]}", a, args[1], lane)
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
            return (
                self.choose(self.op("icmp slt", a, zero, lane), self.i(-1, lane), positive, lane)
                if signed
                else positive
            )
        if name == "invert":
            return self.op("xor", a, self.i(-1, lane), lane)
        if name == "pow":
            return self._int_pow(a, args[1], lane)
        if name in ("floor", "ceil", "rint", "trunc"):
            return a
        raise NotImplementedError(f"{name} of integers")

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
        """Square and multiply over the bits of a non-negative exponent."""
        result, base, zero = self.i(1, lane), a, self.i(0, lane)
        bits = int(lane[1:])
        for bit in range(bits):
            mask = self.i(1 << bit if bit + 1 < bits else -(1 << bit), lane)
            on = self.op("icmp ne", self.op("and", b, mask, lane), zero, lane)
            result = self.choose(on, self.op("mul", result, base, lane), result, lane)
            base = self.op("mul", base, base, lane)
        return result

    def _float(self, name: str, args: list[Value]) -> Value:
        a = args[0]
        if name in _FLOAT_BINARY:
            return self.op(_FLOAT_BINARY[name], a, args[1])
        if name in _FLOAT_COMPARE:
            return self.op(f"fcmp {_FLOAT_COMPARE[name]}", a, args[1])
        if name in _INTRINSIC:
            return self.intrinsic(_INTRINSIC[name], *args)
        if name in _LIBRARY:
            return self.library(_LIBRARY[name], a)
        method = getattr(self, f"_f_{name}", None)
        if method is None:
            raise NotImplementedError(f"{name} of floats")
        return method(*args)

    def _f_max(self, a: Value, b: Value) -> Value:
        return self._extreme("ogt", a, b)

    def _f_min(self, a: Value, b: Value) -> Value:
        return self._extreme("olt", a, b)

    def _extreme(self, test: str, a: Value, b: Value) -> Value:
        """max or min that gives NaN when either side is NaN."""
        keep_a = self.op(f"fcmp {test}", a, b)
        nan_a = self.op("fcmp uno", a, a)
        return self.choose(self.op("or", keep_a, nan_a, "i1"), a, b)

    def _f_neg(self, a: Value) -> Value:
        return self.fn.op(f"fneg {self.type('float')} {a}")

    def _f_abs(self, a: Value) -> Value:
        return self.intrinsic("fabs", a)

    def _f_sign(self, a: Value) -> Value:
        one = self.intrinsic("copysign", self.f(1.0), a)
        return self.choose(self.op("fcmp one", a, self.f(0.0)), one, a)

    def _f_isnan(self, a: Value) -> Value:
        return self.op("fcmp uno", a, a)

    def _f_isinf(self, a: Value) -> Value:
        return self.op("fcmp oeq", self._f_abs(a), self.f(float("inf")))

    def _f_isfinite(self, a: Value) -> Value:
        return self.op("fcmp olt", self._f_abs(a), self.f(float("inf")))

    def _f_rsqrt(self, a: Value) -> Value:
        return self.op("fdiv", self.f(1.0), self.intrinsic("sqrt", a))

    def _f_floordiv(self, a: Value, b: Value) -> Value:
        return self.intrinsic("floor", self.op("fdiv", a, b))

    def _f_truncmod(self, a: Value, b: Value) -> Value:
        return self.op("frem", a, b)

    def _f_floormod(self, a: Value, b: Value) -> Value:
        rest = self.op("frem", a, b)
        wrong = self.op("xor", self.op("fcmp olt", rest, self.f(0.0)), self.op("fcmp olt", b, self.f(0.0)), "i1")
        wrong = self.op("and", wrong, self.op("fcmp une", rest, self.f(0.0)), "i1")
        return self.choose(wrong, self.op("fadd", rest, b), rest)

    def _f_sigmoid(self, a: Value) -> Value:
        e = self._f_exp(self._f_neg(a))
        return self.op("fdiv", self.f(1.0), self.op("fadd", self.f(1.0), e))

    def _f_exp(self, x: Value) -> Value:
        clamped = self.choose(self.op("fcmp ogt", x, self.f(89.0)), self.f(89.0), x)
        clamped = self.choose(self.op("fcmp olt", clamped, self.f(-105.0)), self.f(-105.0), clamped)
        clamped = self.choose(self.op("fcmp uno", x, x), self.f(0.0), clamped)
        n = self.intrinsic("rint", self.op("fmul", clamped, self.f(1.44269504088896341)))
        r = self.fma(n, self.f(-0.693359375), clamped)
        r = self.fma(n, self.f(2.12194440e-4), r)
        p = self.horner(
            r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
        )
        y = self.op("fadd", self.fma(p, self.op("fmul", r, r), r), self.f(1.0))
        k = self.convert("fptosi", n, "float", "i32")
        half = self.op("ashr", k, self.i(1), "i32")
        y = self.op(
            "fmul", self.op("fmul", y, self._power_of_two(half)), self._power_of_two(self.op("sub", k, half, "i32"))
        )
        return self.choose(self.op("fcmp uno", x, x), x, y)

    def _power_of_two(self, n: Value) -> Value:
        bits = self.op("shl", self.op("add", n, self.i(127), "i32"), self.i(23), "i32")
        return self.convert("bitcast", bits, "i32", "float")

    def _f_log(self, x: Value) -> Value:
        tiny = self.op("fcmp olt", x, self.f(1.17549435e-38))
        scaled = self.choose(tiny, self.op("fmul", x, self.f(8388608.0)), x)
        bits = self.convert("bitcast", scaled, "float", "i32")
        exponent = self.op("sub", self.op("lshr", bits, self.i(23), "i32"), self.i(126), "i32")
        exponent = self.op("sub", exponent, self.choose(tiny, self.i(23), self.i(0), "i32"), "i32")
        mantissa = self.op("or", self.op("and", bits, self.i(0x007FFFFF), "i32"), self.i(0x3F000000), "i32")
        m = self.convert("bitcast", mantissa, "i32", "float")
        low = self.op("fcmp olt", m, self.f(0.707106781186547524))
        e = self.op("sub", exponent, self.choose(low, self.i(1), self.i(0), "i32"), "i32")
        ef = self.convert("sitofp", e, "i32", "float")
        m = self.op("fsub", self.choose(low, self.op("fadd", m, m), m), self.f(1.0))
        z = self.op("fmul", m, m)
        p = self.horner(
            m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
            2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        )  # fmt: skip
        y = self.op("fmul", self.op("fmul", p, m), z)
        y = self.fma(ef, self.f(-2.12194440e-4), y)
        y = self.fma(z, self.f(-0.5), y)
        y = self.fma(ef, self.f(0.693359375), self.op("fadd", m, y))
        y = self.choose(self.op("fcmp oeq", x, self.f(0.0)), self.f(float("-inf")), y)
        y = self.choose(self.op("fcmp oeq", x, self.f(float("inf"))), x, y)
        return self.choose(self.op("fcmp ult", x, self.f(0.0)), self.f(float("nan")), y)

    def _f_log1p(self, x: Value) -> Value:
        """log(u) * x / (u - 1) with u = 1 + x: the error of u cancels (Kahan)."""
        u = self.op("fadd", x, self.f(1.0))
        d = self.op("fsub", u, self.f(1.0))
        y = self.op("fmul", self._f_log(u), self.op("fdiv", x, d))
        plain = self.op("or", self.op("fcmp oeq", d, self.f(0.0)), self.op("fcmp oeq", x, self.f(float("inf"))), "i1")
        y = self.choose(self.op("fcmp oeq", x, self.f(-1.0)), self.f(float("-inf")), y)
        return self.choose(plain, x, y)

    def _f_expm1(self, x: Value) -> Value:
        """(u - 1) * x / log(u) with u = exp(x), near zero x itself (Kahan)."""
        u = self._f_exp(x)
        d = self.op("fsub", u, self.f(1.0))
        y = self.op("fdiv", self.op("fmul", d, x), self._f_log(u))
        far = self.op("fcmp ogt", self._f_abs(x), self.f(20.0))
        y = self.choose(far, d, y)
        return self.choose(self.op("fcmp oeq", d, self.f(0.0)), x, y)

    def _f_tanh(self, x: Value) -> Value:
        a = self._f_abs(x)
        z = self.op("fmul", x, x)
        p = self.horner(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
        near = self.fma(self.op("fmul", p, z), x, x)
        e = self._f_exp(self.op("fadd", a, a))
        far = self.op("fsub", self.f(1.0), self.op("fdiv", self.f(2.0), self.op("fadd", e, self.f(1.0))))
        far = self.intrinsic("copysign", far, x)
        return self.choose(self.op("fcmp ogt", a, self.f(0.625)), far, near)

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
        """A float register rounded to what `dtype` can hold (nearest even)."""
        if dtype not in (DType.BF16, DType.F16):
            return a
        return self.from_memory(self.to_memory(a, dtype), dtype)

    def bitcast(self, a: Value, source: DType, out: DType) -> Value:
        if source.bits != out.bits:
            raise NotImplementedError(f"bitcast of {source} to {out}")
        memory = self.to_memory(a, source)
        s, t = memory_type(source), memory_type(out)
        return self.from_memory(memory if s == t else self.convert("bitcast", memory, s, t), out)

    def to_memory(self, a: Value, dtype: DType) -> Value:
        """A register value as it is stored."""
        if dtype is DType.BOOL:
            return self.convert("zext", a, "i1", "i8")
        if dtype is DType.BF16:
            return self._narrow(a)
        if dtype is DType.F16:
            return self.convert("fptrunc", a, "float", "half")
        return a

    def _narrow(self, a: Value) -> Value:
        """float to bfloat16, nearest even."""
        if self.fn.bf16:
            return self.convert("bitcast", self.convert("fptrunc", a, "float", "bfloat"), "bfloat", "i16")
        bits = self.convert("bitcast", a, "float", "i32")
        odd = self.op("and", self.op("lshr", bits, self.i(16), "i32"), self.i(1), "i32")
        up = self.op("add", self.op("add", bits, self.i(0x7FFF), "i32"), odd, "i32")
        quiet = self.op("or", bits, self.i(0x400000), "i32")
        word = self.choose(self.op("fcmp uno", a, a), quiet, up, "i32")
        return self.convert("trunc", self.op("lshr", word, self.i(16), "i32"), "i32", "i16")

    def from_memory(self, a: Value, dtype: DType) -> Value:
        if dtype is DType.BOOL:
            return self.op("icmp ne", a, self.i(0, "i8"), "i8")
        if dtype is DType.BF16:
            bits = self.op("shl", self.convert("zext", a, "i16", "i32"), self.i(16), "i32")
            return self.convert("bitcast", bits, "i32", "float")
        if dtype is DType.F16:
            return self.convert("fpext", a, "half", "float")
        return a
