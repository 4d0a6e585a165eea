"""What Python does in every call of a `tf.function` is done once, where it cannot come out otherwise.

Each call finds the trace that fits: it makes a type of the arguments, hashes it, looks for it, binds the arguments to
the names of the trace's parameters and takes the tensors out of them. For a step of a small network that is a quarter
of a millisecond of two.

- The type of a trace names everything that the trace captures, so a step of Keras' `fit` hashes every variable of the
  model. A type does not change after it was made: its hash is kept.
- A step that takes nothing but an iterator, as those of Keras do, gets the same one until its epochs end. An iterator's
  type is that of its dataset, for as long as it lives: the trace and the tensors are kept with the iterator, beside
  what else they follow from. That is TensorFlow's own context of a function (graph, devices, strategy, how variables
  are saved); and the types of what is captured by reference, of which there must be none.

What runs, what is traced and when, and what is counted is the same as without this.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .after_import import Changes

__all__ = ["install", "uninstall"]

_HASH = "_habana_tf_hash"
_CALL = "_habana_tf_call"
_TYPES = "tensorflow.core.function.polymorphism.function_type"
_CALLS = "tensorflow.python.eager.polymorphic_function.tracing_compilation"


@dataclass(frozen=True)
class _Call:
    """A call that was made: of which function, in which context; what it found, and the tensors it gave to that."""

    options: Any
    context: Any
    function: Any
    tensors: list[Any]


def _hash_once(module: ModuleType) -> None:
    kind: Any = module.FunctionType
    original = kind.__hash__

    def __hash__(self: Any) -> int:
        found: int | None = self.__dict__.get(_HASH)
        if found is None:
            found = self.__dict__[_HASH] = original(self)
        return found

    _changes.set(kind, "__hash__", __hash__)


def _find_once(module: ModuleType) -> None:
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from tensorflow.python.distribute.input_lib import DistributedIterator
    from tensorflow.python.eager.polymorphic_function.function_context import make_function_context

    original, kinds = module.call_function, (OwnedIterator, DistributedIterator)

    def call_function(args: Any = None, kwargs: Any = None, tracing_options: Any = None) -> Any:
        options = tracing_options
        if kwargs or not args or len(args) != 1 or type(args[0]) not in kinds or not options:
            return original(args, kwargs, options)
        captured = options.function_captures
        if options.input_signature or (captured and captured.capture_types):
            return original(args, kwargs, options)
        (iterator,) = args
        around = make_function_context(options.scope_type)
        call = iterator.__dict__.get(_CALL)
        if call is None or call.options is not options or call.context != around:
            function = module.trace_function(args=args, kwargs={}, tracing_options=options)
            tensors = function.function_type.unpack_inputs(function.function_type.bind(iterator))
            call = iterator.__dict__[_CALL] = _Call(options, around, function, tensors)
        return call.function._call_flat(call.tensors, captured_inputs=call.function.captured_inputs)

    _changes.set(module, "call_function", call_function)


def _wrap(module: ModuleType) -> None:
    (_hash_once if module.__name__ == _TYPES else _find_once)(module)


_changes = Changes([_TYPES, _CALLS], _wrap)
install = _changes.install
"""Changes how TensorFlow calls its functions."""
uninstall = _changes.uninstall
"""Gives TensorFlow its own way back."""
