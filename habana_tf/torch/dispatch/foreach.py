"""Ops on lists of tensors (`torch._foreach_*`), of which optimizers' steps are made.

PyTorch gives every device such an op as one op for each element. In each place of a program these are recorded one by
one for the first time, as a stretch whose parameters are the lists (`record.stretches`); from then on the whole op is
recorded in one go:

    _foreach_mul_([p, q], 0.9)    first: mul_(p, 0.9), mul_(q, 0.9)    later: the same two ops, at once

Its numbers, which change from step to step, are run-time numbers of the stretch, one for each element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from habana_tf.torch.ops.table import rows
from habana_tf.torch.record import current
from habana_tf.torch.record.overload import overload_of
from habana_tf.torch.record.recorder import Recorder
from habana_tf.torch.record.stretches import BoundStretch

_MOST_LAYOUTS = 4
"""Stretches in one place of a program, for lists that lie differently in memory."""


def overloads() -> list[Any]:
    """The overloads that PyTorch has for every device as ops on the elements."""
    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        packet, _, kind = name.removeprefix("aten::").partition(".")
        of_lists = packet.startswith("_foreach_") and not kind.endswith("out")
        if of_lists and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeExplicitAutograd"):
            found.append(overload_of(name.removeprefix("aten::")))
    return found


class OnLists:
    """The kernel of one overload."""

    def __init__(self, overload: Any) -> None:
        self._each = functools.partial(overload._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)
        self._gives = bool(overload._schema.returns)
        packet = overload.name().removeprefix("aten::_foreach_").partition(".")[0].rstrip("_")
        named = [row for name, row in rows().items() if name.partition(".")[0].rstrip("_") == packet]
        self._by_number = any(row.literal is not None for row in named)
        """Whether some number is computed otherwise than others, so that what is bound holds for its own numbers."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder()
        with recorder.lock, recorder.together():
            if recorder.watched is not None or recorder.unrun is not None or self._by_number:
                return self._each(*args, **kwargs)
            recorder.begin()
            count = len(args[0]) if isinstance(args[0], (list, tuple)) else 0
            numbers: tuple[list[float], list[int]] = ([], [])
            key: list[Any] = [self, *kwargs]
            tensors = list(_flat((*args, *kwargs.values()), count, key, numbers))
            layouts = recorder.node.lists.setdefault(tuple(key), [])
            for bound in layouts:
                blocks = bound.blocks(tensors, recorder.inputs)
                if blocks is not None:
                    made = recorder.repeat(bound, tensors, blocks, numbers)
                    break
            else:
                made = self._recorded(
                    recorder, layouts, functools.partial(self._each, *args, **kwargs), tensors, numbers
                )
            recorder.end(count)
            return made if self._gives else None

    def _recorded(
        self, recorder: Recorder, layouts: list[BoundStretch], call: Callable[[], Any], tensors: Sequence[torch.Tensor],
        numbers: tuple[list[float], list[int]],
    ) -> Any:  # fmt: skip
        if len(layouts) >= _MOST_LAYOUTS:
            return call()
        made, bound = recorder.stretch(call, tensors)
        if bound is not None and (bound.floats, bound.integers) == numbers:
            layouts.append(bound)
        return made


def _flat(
    args: Sequence[Any], count: int, key: list[Any], numbers: tuple[list[float], list[int]]
) -> Iterator[torch.Tensor]:
    """The tensors of a call. Adds to `key` all else that its meaning depends on, and to `numbers` the floats and the
    integers that are read at run time; a single number is one for each of `count` elements."""
    for a in args:
        if isinstance(a, torch.Tensor):
            key.append(None)
            yield a
        elif isinstance(a, (list, tuple)):
            key.append(len(a))
            for x in a:
                if isinstance(x, torch.Tensor):
                    yield x
                else:
                    key.append(type(x))
                    numbers[type(x) is not float].append(x)
        elif type(a) in (int, float):
            key.append(type(a))
            numbers[type(a) is not float].extend([a] * count)
        else:
            key.append((type(a), a))
