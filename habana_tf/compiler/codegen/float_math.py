"""Scalar functions of floats as LLVM IR.

exp, log, tanh and their relatives are polynomials accurate to about 2 units in the last place (coefficients of Cephes'
single-precision library, public domain; those of erf and erfc are minimax-weighted least-squares fits in double
precision); rare functions call the C library lane by lane. All other arithmetic is IEEE without contraction, so that a
fused chain gives the same results as its ops one by one.
"""

from __future__ import annotations

import functools

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.lanes import LaneOps, number_of
from habana_tf.compiler.view_indices import Unfit

_LIBRARY = {"lgamma": "lgammaf"}
_INTRINSIC = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "rint": "rint", "trunc": "trunc"}
_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


class FloatMath(LaneOps):
    """Emits functions of float registers."""

    def float_function(self, name: str, args: list[Value]) -> Value:
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
            raise Unfit(f"{name} of floats")
        return method(*args)

    def _f_max(self, a: Value, b: Value) -> Value:
        return self._extreme("ogt", a, b)

    def _f_min(self, a: Value, b: Value) -> Value:
        return self._extreme("olt", a, b)

    def _extreme(self, test: str, a: Value, b: Value) -> Value:
        """max or min that gives NaN when either side is NaN."""
        if number_of(b) is not None:
            return self.choose(self.op(f"fcmp u{test[1:]}", a, b), a, b)
        keep_a = self.op(f"fcmp {test}", a, b)
        nan_a = self.op("fcmp uno", a, a)
        return self.choose(self.op("or", keep_a, nan_a, "i1"), a, b)

    def _f_neg(self, a: Value) -> Value:
        return self.fn.op(f"fneg {self.type('float')} {a}")

    def _f_abs(self, a: Value) -> Value:
        return self.intrinsic("fabs", a)

    def _f_sign(self, a: Value) -> Value:
        one = self.intrinsic("copysign", self.f(1.0), a)
        return self.choose(self.op("fcmp one", a, self.f(0.0)), one, self.op("fadd", a, self.f(0.0)))  # -0 + 0 is 0

    def _f_isnan(self, a: Value) -> Value:
        return self.op("fcmp uno", a, a)

    def _f_isinf(self, a: Value) -> Value:
        return self.op("fcmp oeq", self._f_abs(a), self.f(float("inf")))

    def _f_isfinite(self, a: Value) -> Value:
        return self.op("fcmp olt", self._f_abs(a), self.f(float("inf")))

    def _f_rsqrt(self, a: Value) -> Value:
        return self.op("fdiv", self.f(1.0), self.intrinsic("sqrt", a))

    def _f_pow(self, a: Value, b: Value) -> Value:
        """Frequent constant exponents avoid the C library, which takes a hundred times as long."""
        exponent = number_of(b)
        if exponent in (1.0, 2.0, 3.0):
            return self.product([a] * int(exponent))
        if exponent == -1.0:
            return self.op("fdiv", self.f(1.0), a)
        if exponent in (0.5, -0.5):  # of minus infinity infinity, of minus zero zero
            root = self.op("fadd", self.intrinsic("sqrt", a), self.f(0.0))
            root = self.choose(self.op("fcmp oeq", a, self.f(float("-inf"))), self.f(float("inf")), root)
            return root if exponent > 0 else self.op("fdiv", self.f(1.0), root)
        return self.intrinsic("pow", a, b)

    def product(self, factors: list[Value]) -> Value:
        """The product of all factors, in order."""
        return functools.reduce(lambda x, y: self.op("fmul", x, y), factors)

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
        most = self.op("fcmp ole", x, self.f(88.7228317))  # beyond: infinity, and NaN for NaN
        return self.choose(most, self._exp_between(x), self.op("fmul", x, self.f(float("inf"))))

    def _exp_between(self, x: Value) -> Value:
        """exp(x) for x up to 88.72; 0 where it would be denormal."""
        shifted, r = self._reduced(x)
        y = self.op("fadd", self._expm1_near(r), self.f(1.0))
        power = self.op("shl", self.convert("bitcast", shifted, "float", "i32"), self.i(23), "i32")
        bits = self.op("add", self.convert("bitcast", y, "float", "i32"), power, "i32")
        y = self.convert("bitcast", bits, "i32", "float")
        return self.choose(self.op("fcmp olt", x, self.f(-87.3365402)), self.f(0.0), y)

    def _reduced(self, x: Value) -> tuple[Value, Value]:
        """n and r with x = n log(2) + r. x log2(e) is rounded to n by adding 1.5 * 2**23, whose sum has n in its last
        bits, from where it is shifted to the exponent."""
        shifted = self.fma(x, self.f(1.44269504088896341), self.f(12582912.0))
        n = self.op("fsub", shifted, self.f(12582912.0))
        r = self.fma(n, self.f(-0.693359375), x)
        return shifted, self.fma(n, self.f(2.12194440e-4), r)

    def _expm1_near(self, r: Value) -> Value:
        """exp(r) - 1 for |r| <= log(2) / 2."""
        p = self.horner(
            r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
        )
        return self.fma(p, self.op("fmul", r, r), r)

    def _power(self, shifted: Value) -> Value:
        """2^n for n from -126 to 127."""
        bits = self.op("shl", self.convert("bitcast", shifted, "float", "i32"), self.i(23), "i32")
        return self.convert("bitcast", self.op("add", bits, self.i(0x3F800000), "i32"), "i32", "float")

    def _f_log(self, x: Value) -> Value:
        tiny = self.op("fcmp olt", x, self.f(1.17549435e-38))
        scaled = self.choose(tiny, self.op("fmul", x, self.f(8388608.0)), x)
        m, exponent = self._mantissa(scaled)
        exponent = self.op("sub", exponent, self.choose(tiny, self.i(23), self.i(0), "i32"), "i32")
        y = self._log_of(m, exponent)
        y = self.choose(self.op("fcmp oeq", x, self.f(0.0)), self.f(float("-inf")), y)
        y = self.choose(self.op("fcmp oeq", x, self.f(float("inf"))), x, y)
        return self.choose(self.op("fcmp ult", x, self.f(0.0)), self.f(float("nan")), y)

    def _mantissa(self, x: Value) -> tuple[Value, Value]:
        """m and e with x = (1 + m) 2^e and 1 + m from 0.7 to 1.4, for normal x > 0."""
        bits = self.convert("bitcast", x, "float", "i32")
        exponent = self.op("sub", self.op("lshr", bits, self.i(23), "i32"), self.i(126), "i32")
        mantissa = self.op("or", self.op("and", bits, self.i(0x007FFFFF), "i32"), self.i(0x3F000000), "i32")
        m = self.convert("bitcast", mantissa, "i32", "float")
        low = self.op("fcmp olt", m, self.f(0.707106781186547524))
        exponent = self.op("sub", exponent, self.choose(low, self.i(1), self.i(0), "i32"), "i32")
        return self.op("fsub", self.choose(low, self.op("fadd", m, m), m), self.f(1.0)), exponent

    def _log_of(self, m: Value, exponent: Value) -> Value:
        """log((1 + m) 2^exponent)."""
        ef = self.convert("sitofp", exponent, "i32", "float")
        z = self.op("fmul", m, m)
        p = self.horner(
            m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
            2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        )  # fmt: skip
        y = self.op("fmul", self.op("fmul", p, m), z)
        y = self.fma(ef, self.f(-2.12194440e-4), y)
        y = self.fma(z, self.f(-0.5), y)
        return self.fma(ef, self.f(0.693359375), self.op("fadd", m, y))

    def _f_log1p(self, x: Value) -> Value:
        """log(u) for u = 1 + x, corrected by the rounding error of u."""
        u = self.op("fadd", x, self.f(1.0))
        larger = self.op("fcmp ogt", x, self.f(1.0))
        kept = self.op("fsub", u, self.choose(larger, x, self.f(1.0)))
        lost = self.op("fsub", self.choose(larger, self.f(1.0), x), kept)
        m, exponent = self._mantissa(u)
        power = self.op("shl", self.op("sub", self.i(127), exponent, "i32"), self.i(23), "i32")
        power = self.convert("bitcast", power, "i32", "float")
        power = self.choose(self.op("fcmp ogt", x, self.f(1e9)), self.f(0.0), power)  # the rounding error is negligible
        y = self._log_of(self.fma(lost, power, m), exponent)
        y = self.choose(self.op("fcmp oeq", x, self.f(-1.0)), self.f(float("-inf")), y)
        y = self.choose(self.op("fcmp ult", x, self.f(-1.0)), self.f(float("nan")), y)
        plain = self.op("or", self.op("fcmp oeq", x, self.f(0.0)), self.op("fcmp oeq", x, self.f(float("inf"))), "i1")
        return self.choose(plain, x, y)

    def _f_expm1(self, x: Value) -> Value:
        """2^n expm1(r) + (2^n - 1), where x = n log(2) + r."""
        shifted, r = self._reduced(x)
        power = self._power(shifted)
        y = self.fma(power, self._expm1_near(r), self.op("fsub", power, self.f(1.0)))
        y = self.choose(self.op("fcmp olt", x, self.f(-18.0)), self.f(-1.0), y)
        y = self.choose(self.op("fcmp ogt", x, self.f(64.0)), self._f_exp(x), y)
        return self.choose(self.op("fcmp oeq", x, self.f(0.0)), x, y)

    def _f_tanh(self, x: Value) -> Value:
        a = self._f_abs(x)
        z = self.op("fmul", x, x)
        p = self.horner(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
        near = self.fma(self.op("fmul", p, z), x, x)
        e = self._f_exp(self.op("fadd", a, a))
        far = self.op("fsub", self.f(1.0), self.op("fdiv", self.f(2.0), self.op("fadd", e, self.f(1.0))))
        y = self.choose(self.op("fcmp ogt", a, self.f(0.625)), far, near)
        return self.intrinsic("copysign", y, x)  # also of zero

    def _f_erf(self, x: Value) -> Value:
        """Near zero x + x R(x^2), elsewhere 1 - exp(L(|x|)), where L is the logarithm of erfc."""
        a = self._f_abs(x)
        clamped = self._at_most(a, 4.0)  # where it is 1
        log = self.horner(
            clamped, 1.971832398e-4, -3.05562242e-3, 2.227714629e-2, -1.040374823e-1, -6.370596137e-1, -1.127749645,
            -1.77474739e-4,
        )  # fmt: skip
        far = self.op("fsub", self.f(1.0), self._exp_between(log))
        far = self.intrinsic("copysign", far, x)
        return self.choose(self.op("fcmp ogt", a, self.f(0.9)), far, self._erf_near(x))

    def _erf_near(self, x: Value) -> Value:
        """erf(x) for |x| <= 0.9."""
        r = self.horner(
            self.op("fmul", x, x), -6.090316986e-4, 5.011954943e-3, -2.677890392e-2, 1.128214068e-1, -3.761252326e-1,
            1.283791538e-1,
        )  # fmt: skip
        return self.fma(r, x, x)

    def _f_erfc(self, x: Value) -> Value:
        """exp(-a^2) P(t) / (1 + 2 a) with a = |x| and t = (a - 2) / (a + 2), near zero 1 - erf(x); accurate to 5 units
        in the last place. The rounding error of a^2, which exp would amplify a hundredfold, is compensated."""
        a = self._at_most(self._f_abs(x), 11.0)  # where it is 0
        t = self.op("fdiv", self.op("fsub", a, self.f(2.0)), self.op("fadd", a, self.f(2.0)))
        p = self.horner(
            t, -2.59250451e-4, -1.227530883e-3, 1.16724121e-3, 8.631909439e-3, -8.009164972e-3, -5.420524368e-2,
            1.6404884e-1, -1.6603124e-1, -9.276375876e-2, 1.276978389,
        )  # fmt: skip
        square = self.op("fmul", a, a)
        bits = self.op("and", self.convert("bitcast", a, "float", "i32"), self.i(-4096), "i32")
        short = self.convert("bitcast", bits, "i32", "float")  # its square is exact
        rest = self.op("fmul", self.op("fsub", a, short), self.op("fadd", a, short))
        lost = self.op("fadd", self.op("fsub", self.op("fmul", short, short), square), rest)
        e = self._exp_between(self._f_neg(self._at_most(square, 105.0)))
        p = self.fma(self._f_neg(lost), p, p)
        y = self.op("fdiv", self.op("fmul", p, e), self.fma(self.f(2.0), a, self.f(1.0)))
        y = self.choose(self.op("fcmp olt", x, self.f(0.0)), self.op("fsub", self.f(2.0), y), y)
        near = self.op("fsub", self.f(1.0), self._erf_near(x))
        return self.choose(self.op("fcmp ult", self._f_abs(x), self.f(0.5)), near, y)

    def _at_most(self, a: Value, bound: float) -> Value:
        """min(a, bound), which is the bound for NaN."""
        return self.choose(self.op("fcmp olt", a, self.f(bound)), a, self.f(bound))
