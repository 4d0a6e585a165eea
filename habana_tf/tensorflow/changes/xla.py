"""Removes the mark for XLA (`tf.function(jit_compile=True)`) from functions that are traced for HPU.

TensorFlow passes a marked function to XLA when it is called, and XLA does not support HPU: "could not find registered
platform with id: (nil)". Keras marks grouped convolutions, so plain layers would fail like this. HPU compiles every
function anyway, so a function that is traced for HPU is traced without the mark: its loops and branches are lowered as
in any other function, and its gradient has no mark either. Under `tf.device('/CPU:0')` XLA compiles it, as usual: a
marked function has one trace for HPU and one for other devices.

Four names of `tensorflow.python.eager.polymorphic_function` are replaced: `from_func_graph`, through which every
function with its attributes is made (traced, a gradient, or read from a SavedModel); `OptionalXlaContext`, which
changes how control flow is traced; `Function._generate_tracing_options`, where a marked function gets its cache; and
`Function.__init__`, where its errors get advice. Nothing is added to the call of a function without the mark.

XLA has restrictions of its own: no kernels for strings and Python functions, no variables of another device, such as
the state of a generator. If a marked function fails because of them while HPU is loaded, the error says what to do
(`_ADVICE`). Marked calls inside a placed graph (of a session, of a function traced for the CPU) are inlined by
`tensorflow/graph/inline_xla.py`.
"""

from __future__ import annotations

import functools
import gc
import logging
import weakref
from typing import Any

from habana_tf.host_changes.change import Change, Group

_log = logging.getLogger(__name__)
_MARK, _NOT_INLINE = "_XlaMustCompile", "_noinline"
_announced = False
_ADVICE = (
    "habana_tf: this function is marked for XLA (jit_compile=True) and was called where its ops do not land on HPU, so "
    "XLA's rules hold: leave jit_compile out, or call it under tf.device('/HPU:0'), where HPU compiles it"
)


def lands_on_hpu() -> bool:
    """Whether ops without a device of their own will run on HPU: those of this thread's code, or of the graph that it
    is tracing.

    A device that nobody chose is HPU, because TensorFlow's placer prefers it; so is one that a function chooses op by
    op.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    if not tf.config.list_logical_devices("HPU"):
        return False
    if not context.executing_eagerly():
        for scope in ops.get_default_graph()._device_function_stack.peek_objs():  # the innermost first
            if scope.function is None:
                return True  # tf.device(None): what is around it does not count
            kind = _kind(scope.string_merge(_NoDevice)) if scope.fast_string_merge else None
            if kind is not None:
                return kind == "HPU"
    return _kind(context.context().device_name or "") in (None, "HPU")


class _NoDevice:
    """An op that has no device yet, for the devices of a scope."""

    device = ""


def _kind(device: str) -> str | None:
    """HPU, CPU, ... of a device as users and TensorFlow write it; None if it names none."""
    from tensorflow.python.framework import device as names

    return names.DeviceSpec.from_string(device).device_type


def _unmarked(make: Any) -> Any:
    """`from_func_graph`, without the mark where HPU will run the function."""

    def from_func_graph(name: Any, graph: Any, attrs: Any, *args: Any, **kwargs: Any) -> Any:
        if attrs and _marked(attrs) and lands_on_hpu():
            _announce(name)
            attrs = {k: v for k, v in attrs.items() if k not in (_MARK, _NOT_INLINE)}
        return make(name, graph, attrs, *args, **kwargs)

    return from_func_graph


def _marked(attrs: Any) -> bool:
    """Whether attributes of a function, as Python values or as protobufs, ask for XLA."""
    mark = attrs.get(_MARK, False)
    return bool(getattr(mark, "b", mark))


def _outside_xla(context: Any) -> Any:
    """`OptionalXlaContext`, which does nothing where HPU will run what is traced in it."""

    class OptionalXlaContext(context):
        def __init__(self, is_compiled: Any) -> None:
            super().__init__(is_compiled and not lands_on_hpu())

    return OptionalXlaContext


@functools.cache
def _by_landing() -> Any:
    """`FunctionCache`, with HPU or not as a part of every key."""
    from tensorflow.core.function.polymorphism.function_cache import FunctionCache

    class ByLanding(FunctionCache):
        __slots__ = ()

        def lookup(self, function_type: Any, context: Any = None) -> Any:
            return super().lookup(function_type, (context, lands_on_hpu()))

        def delete(self, function_type: Any, context: Any = None) -> bool:
            return super().delete(function_type, (context, lands_on_hpu()))

        def add(self, fn: Any, context: Any = None) -> None:
            super().add(fn, (context, lands_on_hpu()))

        def generalize(self, context: Any, function_type: Any) -> Any:
            return super().generalize((context, lands_on_hpu()), function_type)

    return ByLanding


def _with_a_trace_for_each(options: Any) -> Any:
    """`Function._generate_tracing_options`: what a function is asked for before it is traced for the first time."""

    def _generate_tracing_options(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._jit_compile:
            _keep_apart(self)
        return options(self, *args, **kwargs)

    return _generate_tracing_options


def _keep_apart(function: Any) -> None:
    """Gives a marked function a cache that tells HPU from others. What is in its old one is XLA's."""
    old, by_landing = function._function_cache, _by_landing()
    if isinstance(old, by_landing):
        return
    function._call = _advising(function)  # if it was made before HPU was loaded
    new = by_landing()
    for (context, kind), made in old._primary.items():
        new._primary[(context, False), kind] = made
    for context, table in old._dispatch_dict.items():
        new._dispatch_dict[context, False] = table
    function._function_cache = new
    for config in (function._variable_creation_config, function._no_variable_creation_config):
        if config is not None:
            config.function_cache = new


def _with_advice(begin: Any) -> Any:
    """`Function.__init__`, which gives marked functions a `_call` of their own."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if self._jit_compile:
            self._call = _advising(self)

    return __init__


def _advising(function: Any) -> Any:
    """`Function._call` of one marked function, whose errors say what to do where XLA refused it."""
    from tensorflow.python.framework import errors

    call, this = type(function)._call, weakref.ref(function)

    def _call(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(this(), *args, **kwargs)
        except errors.OpError as error:
            if "xla" in error.message.lower() and _ADVICE not in error.message and not lands_on_hpu():
                error._message = f"{error.message}\n{_ADVICE}"
            raise

    return _call


def _announce(name: Any) -> None:
    global _announced
    if not _announced:
        _announced = True
        shown = name.decode() if isinstance(name, bytes) else name
        _log.info("'%s' is marked for XLA (jit_compile=True), which knows no HPU: HPU compiles it instead", shown)


def _known_functions(started: bool) -> None:
    """Gives functions that were traced already, if they are marked, a trace for HPU."""
    if started:
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

        for known in [o for o in gc.get_objects() if type(o) is Function and o._jit_compile]:
            _keep_apart(known)


_PLACE = "tensorflow.python.eager.polymorphic_function"
XLA = Group(
    "xla",
    "tf.function(jit_compile=True) on HPU ends in XLA's error that it knows no such platform",
    (
        Change(f"{_PLACE}.atomic_function", "from_func_graph", _unmarked),
        Change(f"{_PLACE}.polymorphic_function", "OptionalXlaContext", _outside_xla),
        Change(f"{_PLACE}.polymorphic_function", "Function._generate_tracing_options", _with_a_trace_for_each),
        Change(f"{_PLACE}.polymorphic_function", "Function.__init__", _with_advice),
    ),
    begin=_known_functions,
)
