"""Raises `ForkError` where a process that was forked after `load_habana_module()` uses HPU.

A fork copies memory but no threads, so in such a child TensorFlow waits forever for threads that do not exist: at the
first copy to or from the device, and in every function. Native kernels return an error (kernels/runtime/callbacks.h);
this module stops the calls that would hang before they reach a kernel. Ops that are placed on the CPU explicitly work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change, Group, install, is_made

_watched = False

TEXT = (
    "HPU cannot be used in a process forked after load_habana_module(): TensorFlow's and the device's threads do "
    "not exist here. Start the process with the 'spawn' method instead: multiprocessing.get_context('spawn')"
)


class ForkError(RuntimeError):
    """The device was used in a forked child."""


def _guard(started: bool) -> None:
    """Arranges that children forked from now on get an error instead of a hang."""
    global _watched
    if not _watched:
        _watched = True
        os.register_at_fork(after_in_child=_in_child)


def _in_child() -> None:
    if is_made(FORK):
        install(_CHILD)


def _forked_context(kind: Any) -> Any:
    from tensorflow.python.eager import context

    return _forked(kind, context.__file__)


def _refusing(numpy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`_EagerTensorBase._numpy`, for tensors on the CPU only."""

    def _numpy(self: Any) -> Any:
        if "CPU" not in self.device:
            raise ForkError(TEXT)
        return numpy(self)

    return _numpy


def _forked(kind: Any, own_file: str) -> type:
    """The class of TensorFlow's context in a child: reading the device to run on is an error unless it is the CPU."""

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


FORK = Group(
    "fork", "a process forked after loading hangs at its first use of HPU, instead of saying so", (), begin=_guard
)
_CHILD = Group(
    "fork, in the child",
    FORK.why,
    (
        Change("tensorflow.python.eager.context", "_context.__class__", _forked_context),
        Change("tensorflow.python.framework.ops", "_EagerTensorBase._numpy", _refusing),
    ),
)
