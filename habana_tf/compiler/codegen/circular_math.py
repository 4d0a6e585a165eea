"""Trigonometric and hyperbolic functions and their inverses, on scalars or vectors.

Polynomials accurate to about 3 units in the last place (sin and cos with Cephes' coefficients, public domain; the
inverses with minimax-weighted least-squares fits in double precision). Hyperbolic functions use exp, expm1, log and
log1p.
"""

from __future__ import annotations

import math
import struct

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.float_math import FloatMath
from habana_tf.compiler.codegen.lanes import float_literal

QUARTER = math.pi / 2


class CircularMath(FloatMath):
    """Emits the functions of this module."""

    def _f_sin(self, x: Value) -> Value:
        return self._circular("sin", x)

    def _f_cos(self, x: Value) -> Value:
        return self._circular("cos", x)

    def _f_tan(self, x: Value) -> Value:
        return self._circular("tan", x)

    def _circular(self, name: str, x: Value) -> Value:
        """sin, cos or tan; by the C library if a lane is too large for the range reduction."""
        fn = self.fn
        far = self.op("fcmp ogt", self._f_abs(x), self.f(1 << 30))
        if self.lanes > 1:
            lanes = fn.op(f"bitcast {self.type('i1')} {far} to i{self.lanes}")
            far = fn.op(f"icmp ne i{self.lanes} {lanes}, 0")
        library, here, after = (fn.new_block(hint) for hint in ("library", "here", "after"))
        fn.do(f"br i1 {far}, label %{library}, label %{here}")
        found = []
        for block, compute in ((library, self.intrinsic), (here, self._near_circular)):
            fn.start(block)
            found.append((compute(name, x), fn.block))
            fn.branch(after)
        fn.start(after)
        return fn.op(f"phi {self.type('float')} " + ", ".join(f"[ {value}, %{block} ]" for value, block in found))

    def _near_circular(self, name: str, x: Value) -> Value:
        """Range reduction by multiples of pi/2 in double precision, then polynomials on [-pi/4, pi/4], accurate to a
        unit in the last place."""

        def double(value: float) -> Value:
            return self.constant(float_literal(value, "double"), "double")

        rest = self.convert("fpext", x, "float", "double")
        turns = self.intrinsic("rint", self.op("fmul", rest, double(2 / math.pi), "double"), lane="double")
        for part in (math.pi / 2, 6.123233995736766e-17):  # high and low part of pi/2
            rest = self.intrinsic("fma", turns, double(-part), rest, lane="double")
        r, n = self.convert("fptrunc", rest, "double", "float"), self.convert("fptosi", turns, "double", "i32")
        z = self.op("fmul", r, r)
        sine = self.horner(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
        sine = self.fma(self.op("fmul", sine, z), r, r)
        sine = self.choose(self.op("fcmp oeq", x, self.f(0.0)), x, sine)  # which may be -0
        cosine = self.horner(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
        cosine = self.fma(self.op("fmul", cosine, z), z, self.fma(z, self.f(-0.5), self.f(1.0)))
        if name == "tan":
            odd = self._is_set(n, 1)
            over = self.choose(odd, self._f_neg(cosine), sine)
            return self.op("fdiv", over, self.choose(odd, sine, cosine))
        if name == "cos":
            n = self.op("add", n, self.i(1), "i32")
        y = self.choose(self._is_set(n, 1), cosine, sine)
        return self.choose(self._is_set(n, 2), self._f_neg(y), y)

    def _is_set(self, n: Value, bit: int) -> Value:
        return self.op("icmp ne", self.op("and", n, self.i(bit), "i32"), self.i(0), "i32")

    # -- inverses ---------------------------------------------------------------------------------------------

    def _f_atan(self, x: Value) -> Value:
        """pi/2 - atan(1 / x) for x > 1."""
        a = self._f_abs(x)
        steep = self.op("fcmp ogt", a, self.f(1.0))
        angle = self._angle(self.choose(steep, self.op("fdiv", self.f(1.0), a), a))
        return self.intrinsic("copysign", self.choose(steep, self._without(QUARTER, angle), angle), x)

    def _f_atan2(self, y: Value, x: Value) -> Value:
        """atan of the smaller side over the larger one, moved to the quadrant: 0 / 0 counts as 0, inf / inf as 1."""
        b, a = self._f_abs(x), self._f_abs(y)
        steep = self.op("fcmp ogt", a, b)
        less, more = self.choose(steep, b, a), self.choose(steep, a, b)
        ratio = self.op("fdiv", less, more)
        ratio = self.choose(self.op("fcmp oeq", more, self.f(0.0)), self.f(0.0), ratio)
        ratio = self.choose(self.op("fcmp oeq", less, self.f(float("inf"))), self.f(1.0), ratio)
        angle = self._angle(ratio)
        angle = self.choose(steep, self._without(QUARTER, angle), angle)
        left = self.op("icmp slt", self.convert("bitcast", x, "float", "i32"), self.i(0), "i32")
        angle = self.choose(left, self._without(math.pi, angle), angle)
        angle = self.choose(self.op("fcmp uno", x, y), self.f(float("nan")), angle)
        return self.intrinsic("copysign", angle, y)

    def _angle(self, t: Value) -> Value:
        """atan on [0, 1]."""
        z = self.op("fmul", t, t)
        p = self.horner(
            z, -0.001793593845, 0.01091448081, -0.03117761263, 0.05795735915, -0.08403436628, 0.1095218109,
            -0.1426424079, 0.199985482, -0.3333329909,
        )  # fmt: skip
        return self.fma(self.op("fmul", p, z), t, t)

    def _without(self, whole: float, x: Value) -> Value:
        """whole - x, for a constant that is not exact in fp32."""
        (near,) = struct.unpack("f", struct.pack("f", whole))
        return self.op("fadd", self.op("fsub", self.f(near), x), self.f(whole - near))

    def _f_asin(self, x: Value) -> Value:
        far, p = self._arc(x)
        y = self.choose(far, self._without(QUARTER, self.op("fadd", p, p)), p)
        return self.intrinsic("copysign", y, x)

    def _f_acos(self, x: Value) -> Value:
        far, p = self._arc(x)
        left = self.op("fcmp olt", x, self.f(0.0))
        twice = self.op("fadd", p, p)
        beyond = self.choose(left, self._without(math.pi, twice), twice)
        return self.choose(far, beyond, self._without(QUARTER, self.intrinsic("copysign", p, x)))

    def _arc(self, x: Value) -> tuple[Value, Value]:
        """Whether |x| > 0.5, and asin(|x|), or asin(sqrt((1 - |x|) / 2)) if so."""
        a = self._f_abs(x)
        far = self.op("fcmp ogt", a, self.f(0.5))
        half = self.op("fmul", self.op("fsub", self.f(1.0), a), self.f(0.5))
        z = self.choose(far, half, self.op("fmul", a, a))
        s = self.choose(far, self.intrinsic("sqrt", half), a)
        p = self.horner(z, 0.04221854614, 0.02414761186, 0.04547709712, 0.07495241777, 0.1666675393)
        return far, self.fma(self.op("fmul", p, z), s, s)

    # -- hyperbolas -------------------------------------------------------------------------------------------

    def _f_sinh(self, x: Value) -> Value:
        a = self._f_abs(x)
        e = self._f_expm1(a)
        near = self.op("fadd", e, self.op("fdiv", e, self.op("fadd", e, self.f(1.0))))
        return self.intrinsic("copysign", self._half_or_far(near, a), x)

    def _f_cosh(self, x: Value) -> Value:
        a = self._f_abs(x)
        e = self._f_exp(a)
        return self._half_or_far(self.op("fadd", e, self.op("fdiv", self.f(1.0), e)), a)

    def _half_or_far(self, near: Value, a: Value) -> Value:
        """near / 2, or exp(a) / 2 where near overflows."""
        root = self._f_exp(self.op("fmul", a, self.f(0.5)))
        far = self.op("fmul", self.op("fmul", root, self.f(0.5)), root)
        return self.choose(self.op("fcmp ogt", a, self.f(40.0)), far, self.op("fmul", near, self.f(0.5)))

    def _f_asinh(self, x: Value) -> Value:
        a = self._f_abs(x)
        z = self.op("fmul", a, a)
        root = self.intrinsic("sqrt", self.op("fadd", z, self.f(1.0)))
        near = self.op("fadd", a, self.op("fdiv", z, self.op("fadd", root, self.f(1.0))))
        return self.intrinsic("copysign", self._log1p_or_far(near, a), x)

    def _f_acosh(self, x: Value) -> Value:
        t = self.op("fsub", x, self.f(1.0))
        root = self.intrinsic("sqrt", self.op("fmul", t, self.op("fadd", x, self.f(1.0))))
        y = self._log1p_or_far(self.op("fadd", t, root), x)
        return self.choose(self.op("fcmp olt", x, self.f(1.0)), self.f(float("nan")), y)

    def _log1p_or_far(self, near: Value, a: Value) -> Value:
        """log1p(near), or log(2 a) where the square of a overflows."""
        far = self.op("fadd", self._f_log(a), self.f(math.log(2)))
        return self.choose(self.op("fcmp ogt", a, self.f(1e9)), far, self._f_log1p(near))

    def _f_atanh(self, x: Value) -> Value:
        a = self._f_abs(x)
        y = self._f_log1p(self.op("fdiv", self.op("fadd", a, a), self.op("fsub", self.f(1.0), a)))
        return self.intrinsic("copysign", self.op("fmul", y, self.f(0.5)), x)
