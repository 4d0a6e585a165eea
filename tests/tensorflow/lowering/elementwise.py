"""Elementwise ops as callables, and the element types they are tested in."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32

raw = tf.raw_ops
FLOATS = pytest.mark.parametrize("dtype", [F32, BF16], ids=["float32", "bfloat16"])
INTS = [np.dtype(n) for n in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")]
SIGNED = [d for d in INTS if d.kind == "i"]


def unary(name, **attrs):
    """The op `name` as a callable; the argument's name is x, or features for activations."""
    fn = getattr(raw, name)
    argument = "features" if name in ACTIVATIONS else "x"
    return lambda x: fn(**{argument: x}, **attrs)


ACTIVATIONS = ["Softplus", "Softsign", "Elu", "Selu", "Relu", "Relu6", "LeakyRelu"]


def binary(name):
    fn = getattr(raw, name)
    return lambda x, y: fn(y=x, x=y) if name == "Atan2" else fn(x=x, y=y)
