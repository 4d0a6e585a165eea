"""Element types: PyTorch's, the primitives' and DLPack's."""

from __future__ import annotations

import functools

import torch

from habana_tf.hardware.chips import chip
from habana_tf.ir.dtypes import DType

_TYPES: tuple[tuple[torch.dtype, DType, int], ...] = (
    (torch.float32, DType.F32, 2),
    (torch.bfloat16, DType.BF16, 4),
    (torch.float16, DType.F16, 2),
    (torch.float64, DType.F64, 2),
    (torch.int64, DType.I64, 0),
    (torch.int32, DType.I32, 0),
    (torch.int16, DType.I16, 0),
    (torch.int8, DType.I8, 0),
    (torch.uint8, DType.U8, 1),
    (torch.bool, DType.BOOL, 6),
    (torch.float8_e4m3fn, DType.F8E4M3, 10),
    (torch.float8_e5m2, DType.F8E5M2, 12),
)

PRIMITIVE = {t: d for t, d, _ in _TYPES}
"""The primitives' type of a type of PyTorch."""
DLPACK = {
    **{t: (code, d.bits) for t, d, code in _TYPES},
    torch.complex32: (5, 32), torch.complex64: (5, 64), torch.complex128: (5, 128),
    torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64),
}  # fmt: skip
"""(code, bits) by which a DLPack capsule names a type. Complex numbers and wide unsigned ones are stored; no program
computes with them."""
COMPUTED = frozenset(PRIMITIVE.values()) - {DType.F16, DType.F64}
"""Types that programs compute with; others have CPU kernels."""


@functools.cache
def has(dtype: torch.dtype) -> bool:
    """Whether the simulated card has tensors of this type."""
    short = dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
    return dtype in DLPACK and not (short and chip().float8_e4m3_largest is None)
