"""The element types of the primitives, their names in NumPy and LLVM, and their numbers in native code."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any


class DType(Enum):
    """An element type: value = (name, bits, kind, number, LLVM type in registers).

    `number` stands for it in the runtime and in `habana_kernel.h`; TensorFlow's DataType has the same numbers.

    `kind` is "f" float, "i" signed, "u" unsigned, "b" boolean. A boolean is one byte in memory (0 or 1).
    """

    BOOL = ("bool", 8, "b", 10, "i1")
    I8 = ("int8", 8, "i", 6, "i8")
    U8 = ("uint8", 8, "u", 4, "i8")
    I16 = ("int16", 16, "i", 5, "i16")
    U16 = ("uint16", 16, "u", 17, "i16")
    I32 = ("int32", 32, "i", 3, "i32")
    U32 = ("uint32", 32, "u", 22, "i32")
    I64 = ("int64", 64, "i", 9, "i64")
    U64 = ("uint64", 64, "u", 23, "i64")
    F8E5M2 = ("float8_e5m2", 8, "f", 24, "i8")
    F8E4M3 = ("float8_e4m3fn", 8, "f", 25, "i8")
    BF16 = ("bfloat16", 16, "f", 14, "bfloat")
    F16 = ("float16", 16, "f", 19, "half")
    F32 = ("float32", 32, "f", 1, "float")
    F64 = ("float64", 64, "f", 2, "double")

    def __init__(self, label: str, bits: int, kind: str, number: int, llvm: str) -> None:
        self.label = label
        self.bits = bits
        self.kind = kind
        self.number = number
        self.llvm = llvm

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is a Python call

    def __str__(self) -> str:
        return self.label

    __repr__ = __str__

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def is_short(self) -> bool:
        """Whether it is a float of 8 or 16 bits: arithmetic on it is done in fp32."""
        return self.kind == "f" and self.bits < 32

    @property
    def accumulator(self) -> DType:
        """The type of sums and products: fp32 for short floats, else the type itself."""
        return DType.F32 if self.is_short else self

    def limit(self, highest: bool) -> float | int | bool:
        """The highest or the lowest value; infinite for floats."""
        if self is DType.BOOL:
            return highest
        if self.is_float:
            return math.inf if highest else -math.inf
        signed = self.kind == "i"
        return (1 << self.bits - signed) - 1 if highest else -(1 << self.bits - 1) * signed

    @property
    def numpy(self) -> Any:
        """The NumPy dtype (bfloat16 and the 8-bit floats from ml_dtypes)."""
        import numpy as np

        if self in (DType.BF16, DType.F8E4M3, DType.F8E5M2):
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.label))
        return np.dtype(self.label)


LARGEST_E4M3 = 448.0
"""The largest number of float8_e4m3fn; a larger one, or an infinity, is rounded to it, as PyTorch does."""
_BY_NUMBER = {d.number: d for d in DType}
_BY_LABEL = {d.label: d for d in DType}


def from_number(number: int) -> DType | None:
    """The element type with this number; None for types the device lacks (string, variant...)."""
    return _BY_NUMBER.get(number)


def from_label(label: str) -> DType:
    """The element type of a NumPy or TensorFlow name."""
    return _BY_LABEL[label]
