"""Names of a function's arguments, and which of them are on the card already.

What a step gets anew crosses PCIe: a batch of data. What it gets again does not: weights that a function takes as an
argument, or data that an earlier step left on the card. Only the caller knows which is which.

    step(params, batch={"ids": ...})     names: params, batch/ids       resident="params", resident=0, resident=True
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

KERAS = ("x", "y", "sample_weight")
"""What `fit` calls its arguments."""


def argument_names(fn_or_model: Any, specs: tuple[Any, ...]) -> list[str]:
    """One name per tensor of the arguments, in TensorFlow's order: the parameter's, with the way to it in a nest."""
    import tensorflow as tf
    from tensorflow.python.util import nest

    if hasattr(fn_or_model, "captured_inputs"):
        return [tensor.name.split(":")[0] for tensor in fn_or_model.inputs[: _own(fn_or_model)]]
    if isinstance(fn_or_model, tf.keras.Model):
        first: Sequence[str] = KERAS
    else:
        first = _parameters(getattr(fn_or_model, "python_function", fn_or_model), len(specs))
    found = []
    for name, spec in zip(first, specs, strict=False):
        for path, leaf in nest.flatten_with_joined_string_paths(spec):
            if not isinstance(leaf, tf.TensorSpec):
                continue  # a constant of the function
            found.append(f"{name}/{path}" if path else name)
    return found


def _own(concrete: Any) -> int:
    """How many of a ConcreteFunction's inputs are arguments: variables and other captures are behind them."""
    return len(concrete.inputs) - len(concrete.captured_inputs)


def _parameters(fn: Any, count: int) -> list[str]:
    """The names of a function's first parameters."""
    try:
        known = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # of C
        known = []
    names = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    rest = next((p.name for p in known if p.kind is p.VAR_POSITIONAL), "argument")
    return names + [f"{rest}_{k}" for k in range(count - len(names))]


def resident_names(asked: Any, names: Sequence[str]) -> frozenset[str]:
    """Those of the names that `asked` stands for: True for all, an argument's name or number (of those
    that are tensors or nests of them), or several of these.

    Raises ValueError for one that is no argument.
    """
    if asked is None or asked is False:
        return frozenset()
    if asked is True:
        return frozenset(names)
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        asked = (asked,)
    return frozenset(name for each in asked for name in _meant(each, names))


def _meant(each: Any, names: Sequence[str]) -> Iterable[str]:
    first = list(dict.fromkeys(name.split("/")[0] for name in names))
    if isinstance(each, int) and not isinstance(each, bool) and -len(first) <= each < len(first):
        each = first[each]
    found = [name for name in names if name == each or name.startswith(f"{each}/")]
    if not found:
        raise ValueError(
            f"resident={each!r} is no argument: use one of {', '.join(names)}, its number, or True for all"
        )
    return found
