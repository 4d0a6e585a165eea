"""Which variables and tensors this process holds on the card: those that Python's garbage collector knows.

A variable is the optimizer's where an optimizer has it, a weight where it is trained and of floats, and
else one of the others. Variables of TF1's sessions are no objects of Python and are not found.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator
from typing import Any

_OPTIMIZERS = {"Optimizer", "OptimizerV2", "BaseOptimizer"}
"""Names of the base classes in Keras 2, its legacy optimizers, Keras 3 and `tf.compat.v1.train`."""


def held() -> dict[str, int]:
    """Bytes on the card: "weights", "optimizer", "other variables", and "tensors" that are no variables."""
    from tensorflow.python.framework.ops import EagerTensor
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    optimizers: list[Any] = []
    variables: dict[int, Any] = {}
    tensors: dict[int, Any] = {}
    known: dict[type, bool] = {}
    for each in gc.get_objects():
        kind = type(each)
        if issubclass(kind, EagerTensor):
            tensors[id(each)] = each
        elif issubclass(kind, BaseResourceVariable):
            variables[id(each)] = each
        else:
            if kind not in known:
                known[kind] = _is_optimizer(kind)
            if known[kind]:
                optimizers.append(each)
    of_optimizer = {id(handle) for x in optimizers for v in _variables(x) if (handle := _handle(v)) is not None}
    out = {"weights": 0, "optimizer": 0, "other variables": 0}
    counted = set()
    for v in variables.values():
        handle = _handle(v)
        if handle is None or id(handle) in counted or not _on_card(handle.device):
            continue
        counted.add(id(handle))
        trained = v.trainable and v.dtype.is_floating
        out["optimizer" if id(handle) in of_optimizer else "weights" if trained else "other variables"] += _bytes(v)
    return {**out, "tensors": sum(_tensors(tensors.values()))}


def _is_optimizer(kind: type) -> bool:
    return any(base.__name__ in _OPTIMIZERS and "optimizer" in base.__module__ for base in kind.__mro__)


def _variables(optimizer: Any) -> list[Any]:
    """Its variables; a learning rate is not among those that Keras 2 lists."""
    own = list(getattr(optimizer, "__dict__", {}).values())
    found = getattr(optimizer, "variables", ())
    try:
        return [*own, *(found() if callable(found) and not isinstance(found, list) else found)]
    except Exception:  # one that is half made, or a wrapper of another kind
        return own


def _handle(variable: Any) -> Any:
    """The handle that all objects of one variable share; None where it is none of this process's eager context. A
    variable of Keras 3 has TensorFlow's as its value."""
    from tensorflow.python.framework.ops import EagerTensor

    handle = getattr(variable, "handle", None)
    if handle is None:
        handle = getattr(getattr(variable, "_value", None), "handle", None)
    return handle if isinstance(handle, EagerTensor) else None


def _on_card(device: str | None) -> bool:
    return "/device:HPU:" in (device or "")


def _bytes(variable: Any) -> int:
    shape = variable.shape if variable.shape.is_fully_defined() else variable.read_value().shape
    return math.prod(shape.as_list()) * int(variable.dtype.size)


def _tensors(tensors: Iterable[Any]) -> Iterator[int]:
    for t in tensors:
        if t.dtype.size and _on_card(t.backing_device):
            yield math.prod(t.shape.as_list()) * int(t.dtype.size)
