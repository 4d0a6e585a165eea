"""What a process sees that was forked after `load_habana_module()`.

A fork copies memory but no threads, so TensorFlow waits forever in such a child for threads that are not there:
at the first copy to or from the device, and in every function. Native kernels answer with an error by themselves
(kernels/runtime/callbacks.h); this module stops the calls that would not even reach them. What is placed on the
CPU explicitly goes on working.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["TEXT", "ForkError", "guard"]

TEXT = (
    "HPU cannot be used in a process forked after load_habana_module(): TensorFlow's and the device's threads do "
    "not exist here. Start the process with the 'spawn' method instead: multiprocessing.get_context('spawn')"
)


class ForkError(RuntimeError):
    """The device was used in a forked child."""


def guard() -> None:
    """Arranges that children forked from now on get an error instead of a hang."""
    os.register_at_fork(after_in_child=_in_child)


def _in_child() -> None:
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    current = context._context
    if current is not None:
        current.__class__ = _forked(type(current), context.__file__)
    base = ops._EagerTensorBase
    numpy = base._numpy

    def _numpy(self: Any) -> Any:
        if "CPU" not in self.device:
            raise ForkError(TEXT)
        return numpy(self)

    base._numpy = _numpy


def _forked(kind: Any, own_file: str) -> type:
    """The class of TensorFlow's context in a child: whoever asks where to run must have asked for the CPU."""

    def allowed(device: str | None) -> bool:
        # The context's own methods (entering tf.device, telling eager mode from graph mode) are harmless.
        return sys._getframe(2).f_code.co_filename == own_file or "CPU" in (device or "")

    class ForkedContext(kind):
        @property
        def _thread_local_data(self) -> Any:
            data = self.__dict__["_thread_local_data"]
            if not allowed(data.device_name):
                raise ForkError(TEXT)
            return data

        @property
        def device_name(self) -> str | None:
            name: str | None = self.__dict__["_thread_local_data"].device_name
            if not allowed(name):
                raise ForkError(TEXT)
            return name

    return ForkedContext
