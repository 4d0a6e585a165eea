"""The scalar functions of MAP in NumPy, for the interpreter (its docstring has the rules of rounding).

Functions take arrays of one type (short floats already widened to float32); `apply_scalar` rounds their results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from habana_tf.ir.dtypes import LARGEST_E4M3, DType


def apply_scalar(fn: str, out: DType, types: Sequence[DType], src: Sequence[Any]) -> Any:
    """`fn` over arrays `src` of element types `types`, as an array of type `out`."""
    if fn == "bitcast":
        return np.asarray(src[0], order="C").view(out.numpy)
    if fn == "cast":
        return _cast(src[0], types[0], out)
    if fn == "select":
        return np.where(src[0], src[1], src[2])
    wide = [s.astype(t.accumulator.numpy, copy=False) for s, t in zip(src, types, strict=True)]
    return rounded(np.asarray(_FUNCTIONS[fn](*wide)), out)


def rounded(x: Any, dtype: DType) -> Any:
    """x as an array of `dtype`. float8_e4m3fn, which has no infinities, ends at its largest number."""
    if dtype is DType.F8E4M3:
        x = np.clip(x, -LARGEST_E4M3, LARGEST_E4M3)
    return x.astype(dtype.numpy, copy=False)


def _cast(x: Any, source: DType, out: DType) -> Any:
    if out is DType.BOOL:
        return x.astype(source.accumulator.numpy) != 0
    if source.is_short or (out.is_short and source.is_int):
        x = x.astype(np.float32)
    return rounded(x, out)


def _elementwise(fn: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python's math module over an array, in double precision; poles are infinite."""

    def one(value: float) -> float:
        try:
            return fn(value)
        except (ValueError, OverflowError):
            return math.inf

    def many(x: Any) -> Any:
        flat = [one(v) for v in np.asarray(x, np.float64).reshape(-1).tolist()]
        return np.array(flat, np.float64).reshape(x.shape).astype(x.dtype)

    return many


def _sigmoid(x: Any) -> Any:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _div(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(a, b)
    inexact = (a - quotient * b != 0) & (b != 0)
    return (quotient + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype)


def _floordiv(a: Any, b: Any) -> Any:
    return np.floor(a / b) if a.dtype.kind == "f" else np.floor_divide(a, b)


def _truncmod(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, 0, a - _div(a, b) * b).astype(a.dtype)


def _floormod(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        rest = np.fmod(a, b)
        return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return np.where(b == 0, 0, a - np.floor_divide(a, b) * b).astype(a.dtype)


def _pow(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.power(a, b)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")  # exponents count as unsigned
    return np.power(a.astype(unsigned), b.astype(unsigned)).astype(a.dtype)


def _mulhi(a: Any, b: Any) -> Any:
    bits = a.dtype.itemsize * 8
    product = a.astype(object) * b.astype(object)
    return np.asarray(product >> bits).astype(a.dtype)


def _named(names: str, prefix: str = "", first: int = 0) -> dict[str, Callable[..., Any]]:
    """NumPy's functions that are called as those of MAP, from letter `first` on and behind `prefix`."""
    return {name: getattr(np, prefix + name[first:]) for name in names.split()}


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_named("abs sign exp expm1 log log1p sqrt sin cos tan sinh cosh tanh floor ceil rint trunc isnan isinf isfinite"),
    **_named("asin acos atan asinh acosh atanh atan2", "arc", 1),
    **_named("and or xor", "bitwise_"),
    "neg": np.negative,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "erf": _elementwise(math.erf),
    "erfc": _elementwise(math.erfc),
    "lgamma": _elementwise(math.lgamma),
    "stored": np.asarray,
    "not": np.logical_not,
    "invert": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "truncmod": _truncmod,
    "pow": _pow,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "mulhi": _mulhi,
}
