"""Ops of a program's own: lowerings in Python (`custom_op`) and kernels in C (`load_op_library`).

What a lowering is written with is here too, so that a program needs one import:

    from habana_tf.custom import FLOATS, custom_op, wrap
"""

from __future__ import annotations

from habana_tf.custom.library import load_op_library
from habana_tf.custom.op import CustomOp, custom_op
from habana_tf.custom.signature import CustomOpError
from habana_tf.formulas.term import wrap
from habana_tf.ir.dtypes import DType
from habana_tf.ir.libraries import LibraryError
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, FLOATS, INTS, NUMERIC

__all__ = [
    "ALL", "FLOATS", "INTS", "NUMERIC", "CustomOp", "CustomOpError", "DType", "LibraryError", "Lowering", "custom_op",
    "load_op_library", "wrap",
]  # fmt: skip
