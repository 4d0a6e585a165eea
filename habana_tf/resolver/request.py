"""A launch that asks for its program: a cluster with the shapes and the values it met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from habana_tf.ir.dtypes import from_tf

from ..cluster.cluster import parsed
from .provenance import Provenance

TensorMet = tuple[int, tuple[int, ...], bytes | None]
"""An input that a launch met: TensorFlow's type number, its shape, and its value where that fixes a shape."""


@dataclass(frozen=True)
class Request(Provenance):
    """A cluster with the shapes and fixed values it met: what a recipe for just these is compiled from."""

    shapes: Sequence[tuple[int, ...]]

    @classmethod
    def met(cls, data: bytes, signature: Sequence[TensorMet]) -> Request:
        """data: a serialized cluster; signature: one per input."""
        return cls(data, parsed(data), [tuple(shape) for _, shape, _ in signature], [_value(x) for x in signature])


def _value(item: TensorMet) -> Any | None:
    """A fixed input's value as a NumPy array."""
    import numpy as np

    tf_type, shape, value = item
    dtype = from_tf(tf_type)
    return None if value is None or dtype is None else np.frombuffer(value, dtype.numpy).reshape(shape)
