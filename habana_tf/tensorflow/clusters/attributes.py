"""AttrValues and TensorProtos as plain Python values."""

from __future__ import annotations

from typing import Any

from habana_tf.ir.dtypes import from_number

_ONE_VALUE = frozenset("half_val float_val double_val int_val int64_val bool_val uint32_val uint64_val".split())
"""Fields of a TensorProto of which a single value stands for all elements."""


def plain(value: Any) -> Any:
    """An AttrValue as a Python value: types become DType (or TensorFlow's number when HPU has no such type)."""
    kind = value.WhichOneof("value")
    if kind == "type":
        return from_number(value.type) or value.type
    if kind == "s":
        return value.s.decode("utf-8", "surrogateescape")
    if kind == "shape":
        return None if value.shape.unknown_rank else tuple(d.size for d in value.shape.dim)
    if kind == "tensor":
        return _array(value.tensor)
    if kind == "list":
        items = value.list
        for field_name in ("i", "f", "b", "s", "type"):
            values = list(getattr(items, field_name))
            if values:
                if field_name == "s":
                    return [v.decode("utf-8", "surrogateescape") for v in values]
                return [from_number(v) or v for v in values] if field_name == "type" else values
        return []
    if kind in ("i", "f", "b"):
        return getattr(value, kind)
    return None


def _array(proto: Any) -> Any:
    """The NumPy array in a TensorProto, as TensorFlow's kernels read one: one without elements may hold a value, and
    values beyond the last element do not count. A tensor of one value has no memory but that value's."""
    import numpy as np
    from tensorflow.python.framework import dtypes, tensor_util

    shape = tuple(d.size for d in proto.tensor_shape.dim)
    if 0 in shape:
        return np.zeros(shape, dtypes.as_dtype(proto.dtype).as_numpy_dtype)
    if shape and any(field.name in _ONE_VALUE and len(values) == 1 for field, values in proto.ListFields()):
        scalar = type(proto)()
        scalar.CopyFrom(proto)
        scalar.tensor_shape.Clear()
        return np.broadcast_to(tensor_util.MakeNdarray(scalar), shape)
    return tensor_util.MakeNdarray(proto)


def readable(proto: Any) -> bool:
    """Whether the TensorProto of a constant can be in a cluster."""
    try:
        _array(proto)
    except (TypeError, ValueError):
        return False
    return True
