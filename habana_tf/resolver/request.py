"""A request for a program: a cluster with the shapes and the values that a launch met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from habana_tf.cluster.cluster import Cluster
from habana_tf.cluster.counts import Count
from habana_tf.ir.dtypes import from_number
from habana_tf.ir.extent import LARGEST
from habana_tf.resolver.provenance import Provenance

TensorMet = tuple[int, tuple[int, ...], bytes | None]
"""An input that a launch met: number of its element type, its shape, and its value where that fixes a shape."""


@dataclass(frozen=True)
class Request(Provenance):
    """A cluster with the shapes and fixed values it met: what a recipe for just these is compiled from.

    values: a `Count` stands there for values that decide one number only; raw: all values, as they were met.
    """

    shapes: Sequence[tuple[int, ...]]
    raw: Sequence[Any | None] = ()

    @classmethod
    def met(cls, cluster: Cluster, signature: Sequence[TensorMet]) -> Request:
        """signature: one per input."""
        raw = [_value(x) for x in signature]
        values = list(raw)
        for inputs, counts in cluster.counted:
            if all(raw[k] is not None for k in inputs):
                number = Count.of(counts([raw[k] for k in inputs]))
                values = [number if k in inputs else v for k, v in enumerate(values)]
        return cls(cluster, [tuple(shape) for _, shape, _ in signature], values, raw=raw)


def _value(item: TensorMet) -> Any | None:
    """A fixed input's value as a NumPy array; None for one of sizes that no array has, though it has no elements: its
    op refuses it, in words that its shape is enough for."""
    import numpy as np

    number, shape, value = item
    dtype = from_number(number)
    if value is None or dtype is None or math.prod(n for n in shape if n) * dtype.bytes > LARGEST:
        return None
    return np.frombuffer(value, dtype.numpy).reshape(shape)
