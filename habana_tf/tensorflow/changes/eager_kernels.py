"""Runs the kernel of an eager op directly, instead of a function that has this one op.

What: TensorFlow wraps each eager op in a function and runs that. Its C API has a switch for this, which is turned off
for the present context and for later ones.

Why: inputs in host memory (int32 tensors, strings, axes, shapes, paddings) and the op itself are on two devices, so the
function has two parts, and a tensor goes from one to the other through a rendezvous. All functions made so share one
rendezvous (`reuse_rendezvous_for_functions` in tensorflow/core/common_runtime/eager/execute.cc), and its keys name the
op and its device, not the call: two threads that run the same op at the same time receive each other's tensors, without
an error. So it is with every device of a plugin. On the CPU the function has one part, and nothing is sent.

The names of these functions were how `tensorflow/graph/eager.py` knew what ran on the CPU. Now the two functions
through which Python runs ops put the op and its device there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change, Group

_PLACE = "tensorflow.python.pywrap_tfe"


def _never(original: Callable[[Any, bool], None]) -> Callable[[Any, bool], None]:
    from habana_tf._native import _bridge

    def as_function(options: Any, enable: bool) -> None:
        original(options, False)
        _bridge.forget_eager_context()  # these are the options of another

    return as_function


def _set_present(as_function: bool) -> None:
    """Says how the context there is runs eager ops."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context

    from habana_tf._native import _bridge

    _bridge.forget_eager_context()
    if context._context is not None and context._context._initialized:
        pywrap_tfe.TFE_ContextSetRunEagerOpAsFunction(context._context._handle, as_function)


EAGER_KERNELS = Group(
    "eager_kernels",
    "eager ops of several threads take each other's inputs",
    (
        Change(_PLACE, "TFE_ContextOptionsSetRunEagerOpAsFunction", _never),
        Change(_PLACE, "TFE_ContextSetRunEagerOpAsFunction", lambda original: original),  # has to be there
    ),
    numbers=True,
    begin=lambda started: _set_present(False),
    end=lambda: _set_present(True),
)


def _noting_fast(fast: Callable[..., Any]) -> Callable[..., Any]:
    from tensorflow.python.eager.core import _NotOkStatusException
    from tensorflow.python.framework.ops import EagerTensor

    from habana_tf.tensorflow.graph.eager import RAN, with_reason

    note = RAN.add

    def TFE_Py_FastPathExecute(context: Any, op: Any, *rest: Any) -> Any:
        try:
            results = fast(context, op, *rest)
        except _NotOkStatusException as error:
            error.message = with_reason(error.message, _name(op))
            raise
        if type(results) is EagerTensor:
            note((op, results.device))
        elif results:
            note((op, _device(results)))
        return results

    return TFE_Py_FastPathExecute


def _noting(plain: Callable[..., Any]) -> Callable[..., Any]:
    from tensorflow.python.framework.errors_impl import OpError

    from habana_tf.tensorflow.graph.eager import RAN, with_reason

    def TFE_Py_Execute(context: Any, device: Any, op: Any, *rest: Any) -> Any:
        try:
            results = plain(context, device, op, *rest)
        except OpError as error:
            error._message = with_reason(error.message, _name(op))
            raise
        if results:
            RAN.add((op, results[0].device))
        return results

    return TFE_Py_Execute


def _name(op: str | bytes) -> str:
    return op.decode() if isinstance(op, bytes) else op


def _device(results: Any) -> str:
    """Of several results, which may be lists: of the first."""
    first = results[0]
    return _device(first) if isinstance(first, list) and first else getattr(first, "device", "")


EAGER_REPORT = Group(
    "eager_report",
    "the placement report does not know which eager ops ran on the CPU, and of an op that is pinned to HPU and has no "
    "kernel there TensorFlow does not say why",
    (Change(_PLACE, "TFE_Py_FastPathExecute", _noting_fast), Change(_PLACE, "TFE_Py_Execute", _noting)),
)
