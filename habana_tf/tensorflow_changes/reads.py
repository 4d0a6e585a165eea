"""`tensor.numpy()` of a small tensor on HPU is copied by the thread that asks.

TensorFlow hands every copy to a thread of its own and sleeps until that has woken up and made it: some hundred
microseconds, which Keras' `fit` spends on each metric of each step. An op that gives its input in host memory
(kernels/plugin/host_reads.cc) runs at once. The copy is counted and recorded like any other.

Larger tensors, and whatever is not on HPU, are left to TensorFlow: it keeps what it has copied, in case it is asked
for again.

`variable.numpy()`, of which Keras' `fit` asks one in each step, is one op and such a copy: TensorFlow runs an Identity
between them, to have the value on the device that the program asks for, which is the host here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from habana_tf.tensorflow_changes.change import Change, Group

__all__ = ["LARGEST", "READS"]

LARGEST = 1 << 16
"""Bytes up to which a tensor is read so."""


def _read_at_once(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`_EagerTensorBase._numpy`, by one op for a small tensor on HPU."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context, core
    from tensorflow.python.framework import errors

    execute, limit = pywrap_tfe.TFE_Py_Execute, ("most", LARGEST)

    def _numpy(self: Any) -> Any:
        device = self.backing_device
        if "HPU" not in device or not self.dtype.is_numpy_compatible:
            return original(self)
        # Before the op is done nothing must be asked that waits for the tensor: that would keep the GIL, and to
        # compute the tensor may take it.
        attrs = ("T", self.dtype.as_datatype_enum, *limit)
        try:
            words = original(execute(context.context()._handle, device, "HpuToHost", [self], attrs, 1)[0])
        except (core._NotOkStatusException, errors.OpError):
            return original(self)  # which fails too, and says of which op
        shape = self._shape_tuple()
        if not words.size:
            return original(self)
        found = words.view(self.dtype.as_numpy_dtype)[: math.prod(shape)].reshape(shape)
        return found if shape else found[()]

    return _numpy


def _without_identity(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`BaseResourceVariable.numpy`, without an op between the read and the copy."""
    from tensorflow.python.eager import context
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    def numpy(self: Any) -> Any:
        if type(self).read_value is not BaseResourceVariable.read_value or not context.executing_eagerly():
            return read(self)  # a kind that reads in its own way; or the error that there are no numbers in a graph
        return self._read_variable_op().numpy()

    return numpy


READS = Group(
    "reads",
    "numpy() of a small tensor waits for a thread of TensorFlow's, some hundred microseconds",
    (
        Change("tensorflow.python.framework.ops", "_EagerTensorBase._numpy", _read_at_once),
        Change("tensorflow.python.ops.resource_variable_ops", "BaseResourceVariable.numpy", _without_identity),
    ),
)
