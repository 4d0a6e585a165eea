"""Runs an op that no program can have by PyTorch's CPU kernels, on the same memory.

A tensor of the device and its twin on the CPU share their bytes, so only results are copied, into new blocks. Each op
is logged once, with the reason, and counted for the placement report.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from habana_tf.resolver import placements
from habana_tf.torch.memory.strides import order_of_strides
from habana_tf.torch.record import current, number_forms, random_state, scopes, telemetry
from habana_tf.torch.record.overload import is_written
from habana_tf.torch.record.program_ends import ending

log = logging.getLogger("habana_tf")

NO_ROW = "it has no row in the table of overloads"
SETTING = "PT_HPU_PLACE_ON_CPU keeps it there"


_ALONE = 1 << 20
"""Bytes up to which one thread copies, because waking others takes longer."""


def run(overload: Any, args: Sequence[Any], kwargs: dict[str, Any], why: str) -> Any:
    """Runs an overload on the CPU. Returns its results as tensors of the device."""
    recorder = current.recorder()
    if recorder.unrun is not None:
        return recorder.unrun.left_to_cpu(overload, args, kwargs)
    overload = number_forms.taking_numbers(overload, args, kwargs)
    schema = _schema(overload)
    drawn = schema.random
    if drawn:
        for a in (*args, *kwargs.values()):
            if isinstance(a, torch.Generator):
                random_state.check(a)
                drawn = False
    if drawn and recorder.watched is not None:
        recorder.watched.random(overload)
    with recorder.lock, telemetry.on_cpu(schema.name), ending(f"{schema.name} runs on the CPU"):
        host = _Host(overload, schema)
        if not drawn:
            made = host.call(args, kwargs)
        else:
            with random_state.on_cpu():
                made = host.call(args, kwargs)
    if placements.note_call(schema.name, why, scopes.where, host.nbytes(made)):
        log.warning("%s runs on the CPU: %s", schema.name, why)
    return made


class _Argument(NamedTuple):
    """An argument of a schema. tensor: whether it has to be a tensor, and no number. written: whether a call writes it.
    out: whether a call may also resize it."""

    name: str
    tensor: bool
    written: bool
    out: bool


class _Schema(NamedTuple):
    """What a call needs to know of an overload. random: whether it draws random numbers. writes: whether it writes any
    argument."""

    name: str
    random: bool
    writes: bool
    arguments: tuple[_Argument, ...]
    by_name: dict[str, _Argument]


@functools.cache
def _schema(overload: Any) -> _Schema:
    """Remembered, because PyTorch makes the list of arguments anew each time that it is asked."""
    arguments = []
    for a in overload._schema.arguments:
        written = is_written(a)
        tensor = str(a.type) in ("Tensor", "Optional[Tensor]") and not number_forms.allowed(overload)
        arguments.append(_Argument(a.name, tensor, written, written and a.is_out))
    random = torch.Tag.nondeterministic_seeded in overload.tags
    writes = any(a.written for a in arguments)
    return _Schema(str(overload), random, writes, tuple(arguments), {a.name: a for a in arguments})


class _Host:
    """One call on the CPU. twins: by identity of a twin, the tensor of the device and the twin. whole: where the call
    writes something, the blocks of memory as tensors of the CPU, of which all twins are views. outputs: `out` arguments
    and their twins."""

    def __init__(self, overload: Any, schema: _Schema) -> None:
        self.overload, self.schema = overload, schema
        self.twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.tensors: list[torch.Tensor] = []
        self.whole: dict[int, torch.Tensor] | None = None
        self.outputs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        arguments, by_name = self.schema.arguments, self.schema.by_name
        self.tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
        if self.schema.writes and len(self.tensors) > 1:
            self.whole = {}
        given = [self._to_host(value, a) for a, value in zip(arguments, args, strict=False)]
        named = {name: self._to_host(value, by_name.get(name)) for name, value in kwargs.items()}
        made = self.overload(*given, **named)
        for device, host in self.outputs:
            self._resized(device, host)
        return self._to_device(made)

    def nbytes(self, made: Any) -> int:
        """What a card would copy for this call: its tensors on the device to the host, new results back."""
        read = {id(t): t for t, _ in self.twins.values()}
        new = made if isinstance(made, (tuple, list)) else [made]
        copied = [*read.values(), *(t for t in new if isinstance(t, torch.Tensor) and id(t) not in read)]
        return sum(t.nbytes for t in copied)

    def _to_host(self, value: Any, argument: _Argument | None) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "hpu":
            return self._twin(value, argument is not None and argument.written, argument is not None and argument.out)
        if isinstance(value, (list, tuple)):
            return [self._to_host(x, argument) for x in value]
        if isinstance(value, (bool, int, float, complex)) and argument is not None and argument.tensor:
            return torch.scalar_tensor(value, dtype=self._kind(value), device="cpu")
        if isinstance(value, torch.device) and value.type == "hpu":
            return torch.device("cpu")
        return value

    def _kind(self, value: Any) -> torch.dtype:
        """The type of the tensor for a number that PyTorch did not convert: one that leaves the result's type as it
        is."""
        plain = torch.result_type(value, value)
        alike = [t for t in self.tensors if _rank(t.dtype) >= _rank(plain)]
        if alike and not any(t.dim() for t in alike):
            return alike[0].dtype
        wide = plain.is_floating_point and any(t.dtype is torch.float64 for t in self.tensors)
        return torch.float64 if wide else plain

    def _twin(self, t: torch.Tensor, written: bool, out: bool) -> torch.Tensor:
        """The twin of a tensor; of an `out` that may be resized a copy that can be."""
        twin = host_view(t, written, self.whole)
        if out:
            twin = torch.empty_like(twin).copy_(twin)
            self.outputs.append((t, twin))
        self.twins[id(twin)] = t, twin
        return twin

    def _resized(self, device: torch.Tensor, host: torch.Tensor) -> None:
        """Copies what the CPU's kernel made into an `out` tensor of the device, in its own memory where that is large
        enough."""
        if device.shape != host.shape:
            device.resize_(host.shape)
            if device.stride() != host.stride():
                ends = [(n - 1) * stride for n, stride in zip(host.shape, host.stride(), strict=True)]
                device.resize_((1 + sum(ends) if host.numel() else 0,))  # may be more than elements: rows with gaps
                device.as_strided_(host.shape, host.stride())
        host_view(device, True).copy_(host)

    def _to_device(self, made: Any) -> Any:
        if isinstance(made, torch.Tensor):
            twin = self.twins.get(id(made))
            if twin is not None:
                return twin[0]
            if made.layout is not torch.strided or made.is_quantized:
                kind = "quantized" if made.is_quantized else str(made.layout).removeprefix("torch.")
                raise NotImplementedError(
                    f"HPU has no {kind} tensors, which {self.schema.name} makes: call it on a tensor of the CPU"
                )
            return to_device(made)
        if isinstance(made, (list, tuple)):
            return type(made)(self._to_device(x) for x in made)
        return made


def _rank(dtype: torch.dtype) -> int:
    """Orders types as PyTorch promotes them: of several, the highest decides the kind of a result."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not torch.bool)


def host_view(t: torch.Tensor, write: bool, whole: dict[int, torch.Tensor] | None = None) -> torch.Tensor:
    """A tensor of the CPU on the memory of a tensor of the device, with its present values. whole: by the address of
    their blocks, tensors of the CPU of which twins become views, so that PyTorch sees where twins overlap."""
    block = current.recorder().settle(t, write)
    if not t.numel():
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")
    first = t.data_ptr() - block.address
    if whole is None or first % t.element_size():
        made = block.viewed(t)
    else:
        if block.address not in whole:
            whole[block.address] = block.host()
        storage = whole[block.address].untyped_storage()
        made = torch.empty(0, dtype=t.dtype, device="cpu").set_(storage, first // t.element_size(), t.shape, t.stride())
    if t.is_conj():
        made = made.conj()
    return torch._neg_view(made) if t.is_neg() else made


def to_device(t: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor of the CPU on the device, with its strides where these are dense."""
    shape, strides = tuple(t.size()), t.stride()  # not its attribute: see `copy`
    if order_of_strides(shape, strides) is None:
        strides = torch.empty_like(t).stride()
    made, _ = current.recorder().tensor(shape, strides, t.dtype)
    copy(t, host_view(made, True))
    return made


def copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copies elements between tensors of the CPU. A small copy between equal layouts is done by this thread alone:
    waking others takes longer than the copy, and much longer where another program uses their cores."""
    shape = tuple(source.size())  # its attribute is not for a parameter of a lazy module
    alike = source.dtype is target.dtype and shape == target.size() and source.stride() == target.stride()
    turned = source.is_conj() or source.is_neg() or target.is_conj() or target.is_neg() or source._is_zerotensor()
    size = source.nbytes
    if size <= _ALONE and alike and not turned and order_of_strides(shape, source.stride()) is not None:
        ctypes.memmove(target.data_ptr(), source.data_ptr(), size)
    else:
        target.copy_(source)
