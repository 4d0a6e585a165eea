"""Ops of a program's own: lowerings in Python (`custom_op`) and kernels in C (`load_op_library`).

What a lowering is written with is here too, so that a program needs one import:

    from habana_tf.custom import FLOATS, custom_op, wrap
"""

from __future__ import annotations

from ..ir.dtypes import DType
from ..ir.libraries import LibraryError
from ..lowering.formula import wrap
from ..lowering.lowering import Lowering
from ..lowering.row import ALL, FLOATS, INTS, NUMERIC
from .library import load_op_library
from .op import CustomOp, custom_op
from .signature import CustomOpError

__all__ = [
    "ALL", "FLOATS", "INTS", "NUMERIC", "CustomOp", "CustomOpError", "DType", "LibraryError", "Lowering", "custom_op",
    "load_op_library", "wrap",
]  # fmt: skip
