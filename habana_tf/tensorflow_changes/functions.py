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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from habana_tf.tensorflow_changes.change import Change, Group

__all__ = ["FUNCTION_CALLS"]

_HASH = "_habana_tf_hash"
_CALL = "_habana_tf_call"


@dataclass(frozen=True)
class _Call:
    """A call that was made: of which function, in which context; what it found, and the tensors it gave to that."""

    options: Any
    context: Any
    function: Any
    tensors: list[Any]


def _hash_once(original: Callable[[Any], int]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        found: int | None = self.__dict__.get(_HASH)
        if found is None:
            found = self.__dict__[_HASH] = original(self)
        return found

    return __hash__


def _find_once(original: Callable[..., Any]) -> Callable[..., Any]:
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from tensorflow.python.distribute.input_lib import DistributedIterator
    from tensorflow.python.eager.polymorphic_function.function_context import make_function_context
    from tensorflow.python.eager.polymorphic_function.tracing_compilation import trace_function

    kinds = (OwnedIterator, DistributedIterator)

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
            function = trace_function(args=args, kwargs={}, tracing_options=options)
            tensors = function.function_type.unpack_inputs(function.function_type.bind(iterator))
            call = iterator.__dict__[_CALL] = _Call(options, around, function, tensors)
        return call.function._call_flat(call.tensors, captured_inputs=call.function.captured_inputs)

    return call_function


FUNCTION_CALLS = Group(
    "function_calls",
    "each call of a step hashes the types of all variables and looks for its trace",
    (
        Change("tensorflow.core.function.polymorphism.function_type", "FunctionType.__hash__", _hash_once),
        Change("tensorflow.python.eager.polymorphic_function.tracing_compilation", "call_function", _find_once),
    ),
)
