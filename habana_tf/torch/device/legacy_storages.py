"""`torch.hpu.FloatStorage` and its like: PyTorch's older names for the storages of a device, one for each type.

`Tensor.storage_type`, `TypedStorage.type` and `isinstance` find them by the name of the module that they are in.
"""

from __future__ import annotations

import torch
from torch.storage import _LegacyStorage


def _of(name: str, dtype: torch.dtype) -> type:
    return type(name, (_LegacyStorage,), {"__module__": "torch.hpu", "dtype": dtype, "_dtype": dtype})


BFloat16Storage = _of("BFloat16Storage", torch.bfloat16)
BoolStorage = _of("BoolStorage", torch.bool)
ByteStorage = _of("ByteStorage", torch.uint8)
CharStorage = _of("CharStorage", torch.int8)
ComplexDoubleStorage = _of("ComplexDoubleStorage", torch.complex128)
ComplexFloatStorage = _of("ComplexFloatStorage", torch.complex64)
DoubleStorage = _of("DoubleStorage", torch.float64)
FloatStorage = _of("FloatStorage", torch.float32)
HalfStorage = _of("HalfStorage", torch.float16)
IntStorage = _of("IntStorage", torch.int32)
LongStorage = _of("LongStorage", torch.int64)
ShortStorage = _of("ShortStorage", torch.int16)

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
]  # fmt: skip
