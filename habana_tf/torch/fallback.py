"""Runs an op that no program has on PyTorch's CPU kernels, on the same memory.

A tensor of the device and its counterpart of the CPU share their bytes, so nothing is copied but results, which go to
new blocks. Each op is told of once, with the reason, and counted for the placement report.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from habana_tf.hardware import device_state
from habana_tf.reports.layer_names import layer
from habana_tf.resolver import placements
from habana_tf.torch import random_state, scopes, told
from habana_tf.torch.recording import Recorder

log = logging.getLogger("habana_tf")

NO_ROW = "it has no row in the table of overloads"
SETTING = "PT_HPU_PLACE_ON_CPU keeps it there"


def run(recorder: Recorder, overload: Any, args: Sequence[Any], kwargs: dict[str, Any], why: str) -> Any:
    """The results of an overload on the CPU, as tensors of the device."""
    if recorder.unrun is not None:
        return recorder.unrun.left_to_cpu(overload, args, kwargs)
    if placements.note_cpu_op(str(overload), device_state.PYTORCH, why, layer(scopes.now())):
        log.warning("%s runs on the CPU: %s", overload, why)
    given = any(isinstance(a, torch.Generator) for a in (*args, *kwargs.values()))
    drawn = torch.Tag.nondeterministic_seeded in overload.tags and not given
    if drawn and recorder.noting is not None:
        recorder.noting.random(overload)
    with recorder.lock, told.on_cpu(str(overload)), random_state.on_cpu() if drawn else nullcontext():
        return _Host(recorder, overload).call(args, kwargs)


class _Host:
    """One call. twins: by the identity of a counterpart on the CPU the tensor of the device."""

    def __init__(self, recorder: Recorder, overload: Any) -> None:
        self.recorder, self.overload = recorder, overload
        self.twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.types: set[torch.dtype] = set()
        self.outputs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given: list[Any] = []
        self.types = {t.dtype for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)}
        arguments = self.overload._schema.arguments
        for a, value in zip(arguments, args, strict=False):
            given.append(self._to_host(value, a))
        by_name = {a.name: a for a in arguments}
        named = {name: self._to_host(value, by_name.get(name)) for name, value in kwargs.items()}
        made = self.overload(*given, **named)
        for device, host in self.outputs:
            self._resized(device, host)
        return self._to_device(made)

    def _to_host(self, value: Any, argument: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "hpu":
            written = argument is not None and argument.alias_info is not None and argument.alias_info.is_write
            return self._twin(value, written, written and argument.is_out)
        if isinstance(value, (list, tuple)):
            return [self._to_host(x, argument) for x in value]
        if isinstance(value, (bool, int, float, complex)) and argument is not None and _takes_tensor(argument):
            return torch.scalar_tensor(value, dtype=self._kind(value), device="cpu")
        if isinstance(value, torch.device) and value.type == "hpu":
            return torch.device("cpu")
        return value

    def _kind(self, value: Any) -> torch.dtype:
        """The type of a tensor for a number that PyTorch hands over as it is: none that changes the result's."""
        if isinstance(value, float):
            return torch.float64 if torch.float64 in self.types else torch.get_default_dtype()
        return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.complex64

    def _twin(self, t: torch.Tensor, written: bool, out: bool) -> torch.Tensor:
        """The counterpart of a tensor. Of an `out` that may be resized one that can be."""
        twin = host_view(self.recorder, t, written)
        if out:
            twin = torch.empty_like(twin).copy_(twin)
            self.outputs.append((t, twin))
        self.twins[id(twin)] = t, twin
        return twin

    def _resized(self, device: torch.Tensor, host: torch.Tensor) -> None:
        """Gives an `out` what the CPU's kernel made of it."""
        if device.shape != host.shape:
            new = to_device(self.recorder, host)
            device.set_(new)
        else:
            host_view(self.recorder, device, True).copy_(host)

    def _to_device(self, made: Any) -> Any:
        if isinstance(made, torch.Tensor):
            twin = self.twins.get(id(made))
            return twin[0] if twin is not None else to_device(self.recorder, made)
        if isinstance(made, (list, tuple)):
            return type(made)(self._to_device(x) for x in made)
        return made


def _takes_tensor(argument: Any) -> bool:
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


def host_view(recorder: Recorder, t: torch.Tensor, write: bool) -> torch.Tensor:
    """A tensor of the CPU on the memory of one of the device, with the values that this has now."""
    block = recorder.settle(t, write)
    if not t.numel():
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")
    flat = block.host()[: block.size // t.element_size() * t.element_size()].view(t.dtype)
    made = flat.as_strided(t.shape, t.stride(), t.storage_offset())
    if t.is_conj():
        made = made.conj()
    return torch._neg_view(made) if t.is_neg() else made


def to_device(recorder: Recorder, t: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor of the CPU on the device, with its strides where these are dense."""
    made = torch.empty_strided(t.shape, torch.empty_like(t).stride(), dtype=t.dtype, device="hpu")
    host_view(recorder, made, True).copy_(t)
    return made
