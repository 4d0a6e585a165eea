"""Eager ops stay synchronous beside HPU, also where a program asks for asynchronous ones.

What: executors that TensorFlow makes from now on run an op when it is called, and a line says so, once. What a program
can see of it is when an op runs, and when its error comes.

Why: HPU compiles an op of new shapes in Python. On a thread of TensorFlow's that waits for Python's lock, while who
asks for a tensor that is not there yet, if only for its rank, waits for the tensor with the lock held: neither goes on.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

__all__ = ["install"]

_log = logging.getLogger("habana_tf")


def install() -> None:
    """Changes how executors are made and a context's mode is set, once; what is asynchronous already is changed."""
    from tensorflow.python.eager import context, executor

    original, mode = executor.new_executor, context.Context.execution_mode
    if getattr(original, "__module__", None) == __name__:
        return

    @functools.wraps(original)
    def new_executor(enable_async: bool, *args: Any, **kwargs: Any) -> Any:
        if enable_async:
            _announce()
        return original(False, *args, **kwargs)

    def set_mode(self: Any, value: Any) -> None:
        if value == context.ASYNC:
            _announce()
            value = context.SYNC
        mode.fset(self, value)

    new_executor.__module__ = __name__
    executor.new_executor = new_executor
    context.Context.execution_mode = mode.setter(set_mode)
    current = context.context()
    if current.is_async():
        current.execution_mode = context.ASYNC


@functools.cache
def _announce() -> None:
    _log.info("eager ops stay synchronous beside HPU: one that is compiled would wait for Python, and Python for it")
