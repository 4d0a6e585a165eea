"""Whether PyTorch's CPU takes a call's arguments: its own kernel is asked, the first time that a call is recorded.

Meta kernels say shapes. They let pass what kernels refuse: a source of another shape than its index, types that do not
go together, a view that is written while it overlaps what is read. A lowering trusts what it is given. So the CPU's
kernel is called on tensors of its own:

    up to `SMALL` elements   zeros of the same shapes and strides; views of one storage stay that where one is written
    more                     long axes are shortened, equal ones to equal lengths, longer ones to longer lengths; where
                             that is refused, which may come of the shortening, less of them, and at last none

Zeros may be refused for their values (a divisor, weights to draw by); ones are tried then. What only the true values
tell is looked at when the program runs (`ops.row.Call.in_range`).

A call is not asked about where one was taken before that differs in long lengths only, with the same ones equal and the
same ones longer: a cache that grows by a row has new lengths at each call, and meta kernels have looked at those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch

from habana_tf.torch.memory.strides import order_of_strides
from habana_tf.torch.record import number_forms
from habana_tf.torch.record.nested import mapped, tensors

SMALL = 1 << 12
"""Elements that any kernel computes in microseconds."""
_KEPT = 8
"""Lengths up to here are not shortened: they are those of windows, not of batches."""
_SHORT = frozenset({torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2})
_NO_KERNEL = "Could not run"
"""How PyTorch begins to say that the CPU has no kernel of an overload."""
_MOST = 1 << 14
_taken: set[Any] = set()
"""What decides whether a call is right (`_Call.known`), of those that were."""


def check(
    overload: Any, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[Any] = (), mixed: bool = False
) -> None:
    """Raises what PyTorch's CPU says to these arguments, if it refuses them. results: tensors as they come out. mixed:
    bfloat16 is taken for float32."""
    call = _Call(number_forms.taking_numbers(overload, args, kwargs), args, kwargs, mixed)
    if call.known in _taken:
        return
    why: Exception | None = None
    for lengths in call.lengths(results):
        why = call.refusal(lengths)
        if why is None:
            break
    if why is not None:
        raise why from None
    if len(_taken) >= _MOST:
        _taken.clear()
    _taken.add(call.known)


class _Call:
    """A call with arguments of the CPU in place of its own. long: lengths that may be shortened, and to what; known:
    what decides whether it is right."""

    def __init__(self, overload: Any, args: Sequence[Any], kwargs: dict[str, Any], mixed: bool) -> None:
        self.overload, self.args, self.kwargs, self.mixed = overload, args, kwargs, mixed
        self.given = list({id(t): t for t in tensors([args, kwargs])}.values())
        spans: dict[int, list[int]] = {}  # bytes of each storage that are looked at
        for t in self.given:
            if t.numel():
                first, size = t.storage_offset(), t.element_size()
                span = spans.setdefault(t.untyped_storage().data_ptr(), [first * size, 0])
                span[:] = min(span[0], first * size), max(span[1], (first + _span(t)) * size)
        self.spans = spans
        writes = overload._schema.is_mutable  # else it is all one what shares memory with what
        self.shared = writes and len(spans) < sum(t.numel() > 0 for t in self.given)
        self.long = {} if self.shared else _shortened({n for t in self.given for n in t.shape})
        self.known = (overload, mixed, self._described(args), self._described(kwargs))

    def _described(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            shape, strides = value.shape, value.stride()
            if not self.shared:
                return (tuple(self.long.get(n, n) for n in shape), value.dtype, _kind_of(shape, strides))
            storage = value.untyped_storage().data_ptr()
            where = (list(self.spans).index(storage), value.storage_offset()) if value.numel() else ()
            return (tuple(shape), strides, value.dtype, *where)
        if isinstance(value, (list, tuple)):
            return tuple(map(self._described, value))
        if isinstance(value, dict):
            return tuple((name, self._described(x)) for name, x in value.items())
        if type(value) is int and value in self.long:
            return ("length", self.long[value])
        return (type(value), repr(value) if isinstance(value, float) else value)

    def lengths(self, results: Sequence[Any]) -> Iterator[dict[int, int]]:
        """What to take for long axes, in the order of cost; nothing at last. What overlaps depends on every stride."""
        if not self.shared and sum(t.numel() for t in (*self.given, *tensors(list(results)))) > SMALL:
            inner = {n for t in self.given for n in t.shape[2:]}
            for kept in (set(), inner):  # images need theirs in a backward pass: sizes there follow from each other
                yield _shortened(self.long.keys() - kept)
        yield {}

    def refusal(self, lengths: dict[int, int]) -> Exception | None:
        """What the CPU's kernel raises; None where it takes the call."""
        why = self._tried(0, lengths)
        return None if why is None or self._tried(1, lengths) is None else why

    def _tried(self, fill: int, lengths: dict[int, int]) -> Exception | None:
        made: dict[Any, torch.Tensor] = {}
        try:
            args, kwargs = (self._of_cpu(value, fill, lengths, made) for value in (self.args, self.kwargs))
            draws = torch.Tag.nondeterministic_seeded in self.overload.tags
            with torch.random.fork_rng(devices=[], enabled=draws):
                self.overload(*args, **kwargs)
        except NotImplementedError as why:
            few = self.mixed or any(t.dtype in _SHORT for t in self.given)  # types that cards have kernels for
            return None if few or str(why).startswith(_NO_KERNEL) else why.with_traceback(None)
        except Exception as why:
            return why.with_traceback(None)  # which would keep what all callers hold, in a circle
        return None

    def _of_cpu(self, value: Any, fill: int, lengths: dict[int, int], made: dict[Any, torch.Tensor]) -> Any:
        def of_cpu(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if value not in made:
                    made[value] = self._tensor(value, fill, lengths, made)
                return made[value]
            if isinstance(value, torch.device):
                return torch.device("cpu")
            return lengths.get(value, value) if type(value) is int else value

        return mapped(of_cpu, value)

    def _tensor(self, t: torch.Tensor, fill: int, lengths: dict[int, int], made: dict[Any, torch.Tensor]) -> Any:
        """A tensor of the CPU for one of a call."""
        shape, strides = tuple(t.shape), t.stride()
        dtype = torch.float32 if self.mixed and t.dtype is torch.bfloat16 else t.dtype
        if lengths:
            shape = tuple(lengths.get(n, n) for n in shape)
            own = [1 if n > 1 and s == 0 else n for n, s in zip(shape, strides, strict=True)]
            return torch.full(own, fill, dtype=dtype, device="cpu").expand(shape)
        if not self.shared or not t.numel() or self.mixed:
            return torch.full((_span(t),), fill, dtype=dtype, device="cpu").as_strided(shape, strides, 0)
        storage = t.untyped_storage().data_ptr()
        first, end = self.spans[storage]
        if storage not in made:
            made[storage] = torch.zeros(end - first, dtype=torch.uint8, device="cpu")
        flat = made[storage][: (end - first) // t.element_size() * t.element_size()].view(dtype)
        if fill:
            flat.fill_(fill)
        return flat.as_strided(shape, strides, t.storage_offset() - first // t.element_size())


def _shortened(lengths: Collection[int]) -> dict[int, int]:
    """Short lengths for long ones, in their order."""
    return {n: _KEPT + 1 + k for k, n in enumerate(sorted(n for n in lengths if n > _KEPT))}


def _kind_of(shape: Sequence[int], strides: tuple[int, ...]) -> Any:
    """What counts of strides: of dense ones their order, of others whether elements share memory, and how."""
    order = () if 0 in shape else order_of_strides(tuple(shape), strides)
    if order is not None:
        return (order,)
    reach = 1
    for n, stride in sorted(zip(shape, strides, strict=True), key=lambda axis: axis[1]):
        if n > 1 and stride < reach:
            return strides
        reach += (n - 1) * stride
    return "apart"


def _span(t: torch.Tensor) -> int:
    """Elements between the first and the last one in memory, with both."""
    return 0 if not t.numel() else 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
