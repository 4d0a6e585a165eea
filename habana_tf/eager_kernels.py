"""An eager op runs its kernel at once, instead of a function made of that one op.

What: TensorFlow wraps each eager op in a function and runs that. Its C API can turn this off, and it is turned off, for
the context there is and for those to come.

Why: inputs in host memory (int32 tensors, strings, axes, shapes, paddings) and the op itself are on two devices, so the
function has two parts, and a tensor goes from one to the other through a rendezvous. All functions made so share one
rendezvous (`reuse_rendezvous_for_functions` in tensorflow/core/common_runtime/eager/execute.cc), and its keys name the
op and its device, not the call: two threads that run the same op at the same time receive each other's tensors, without
an error. So it is with every device of a plugin. On the CPU the function has one part, and nothing is sent.

The names of these functions were how `graph/eager.py` knew what ran on the CPU. Now the two functions through which
Python runs ops put the op and its device there.
"""

from __future__ import annotations

from typing import Any

from .device_state import LoadError

__all__ = ["install"]


def install() -> None:
    """Changes how TensorFlow's contexts run eager ops, once. Raises LoadError where TensorFlow cannot."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context

    from ._native import _bridge

    original = getattr(pywrap_tfe, "TFE_ContextOptionsSetRunEagerOpAsFunction", None)
    change = getattr(pywrap_tfe, "TFE_ContextSetRunEagerOpAsFunction", None)
    if original is None or change is None:
        import tensorflow as tf

        raise LoadError(
            f"TensorFlow {tf.__version__} runs every eager op as a function, in which threads take each other's inputs "
            "on HPU, and cannot be told otherwise: install a release from 2.15 to 2.21 "
            "(pip install 'tensorflow>=2.15,<2.22')"
        )
    if getattr(original, "__module__", None) == __name__:
        return
    _bridge.forget_eager_context()

    def as_function(options: Any, enable: bool) -> None:
        original(options, False)
        _bridge.forget_eager_context()  # these are the options of another

    as_function.__module__ = __name__
    pywrap_tfe.TFE_ContextOptionsSetRunEagerOpAsFunction = as_function
    if context._context is not None and context._context._initialized:
        change(context._context._handle, False)
    _watch(pywrap_tfe)


def _watch(pywrap_tfe: Any) -> None:
    """Has every eager op noted with its device, after it ran."""
    from tensorflow.python.framework import ops

    from .graph.eager import RAN

    fast, plain, tensor, note = (
        pywrap_tfe.TFE_Py_FastPathExecute,
        pywrap_tfe.TFE_Py_Execute,
        ops.EagerTensor,
        RAN.add,
    )

    def TFE_Py_FastPathExecute(context: Any, op: Any, *rest: Any) -> Any:
        results = fast(context, op, *rest)
        if type(results) is tensor:
            note((op, results.device))
        elif results:
            note((op, _device(results)))
        return results

    def TFE_Py_Execute(context: Any, device: Any, op: Any, *rest: Any) -> Any:
        results = plain(context, device, op, *rest)
        if results:
            note((op, results[0].device))
        return results

    pywrap_tfe.TFE_Py_FastPathExecute = TFE_Py_FastPathExecute
    pywrap_tfe.TFE_Py_Execute = TFE_Py_Execute


def _device(results: Any) -> str:
    """Of several results, which may be lists: of the first."""
    first = results[0]
    return _device(first) if isinstance(first, list) and first else getattr(first, "device", "")
