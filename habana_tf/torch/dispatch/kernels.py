"""Registers the device's kernels with PyTorch's dispatcher: memory, views, copies, the rows of the table, and a
fallback for all other overloads."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_tf.card.timeline.record import EventKind
from habana_tf.settings import PT_HPU_PLACE_ON_CPU
from habana_tf.torch.dispatch import (
    attention,
    fallback,
    foreach,
    masks,
    out_overloads,
    packed_sequences,
    recurrent,
    replaced,
)
from habana_tf.torch.dispatch.composed import Composed
from habana_tf.torch.dispatch.deterministic import filled
from habana_tf.torch.dispatch.fused_optimizers import Fused
from habana_tf.torch.hpu_ops import registration as hpu_ops
from habana_tf.torch.memory.element_types import COMPUTED, PRIMITIVE, has
from habana_tf.torch.memory.strides import contiguous_strides
from habana_tf.torch.ops import own_ops
from habana_tf.torch.ops.table import rows
from habana_tf.torch.record import current, telemetry
from habana_tf.torch.record.current import index
from habana_tf.torch.record.overload import NotRecorded, Overload, overload_of
from habana_tf.torch.record.program_ends import ending

_KEY = "PrivateUse1"
_VIEWS = ("view", "view_as_real", "view_as_complex", "as_strided", "_reshape_alias", "unfold", "alias", "view.dtype",
          "set_.source_Storage_storage_offset", "set_.source_Tensor", "set_.source_Storage",
          "is_set_to")  # fmt: skip
"""Overloads whose CPU kernels read no element: they make another tensor on the same storage."""
_COMPOSITE = ("alias", "view.dtype")
"""Those of them that PyTorch has for every device."""


class Kernels:
    """The registrations, which last as long as this object."""

    def __init__(self) -> None:
        self._aten = torch.library.Library("aten", "IMPL")
        self._all = torch.library.Library("_", "IMPL")

    def register(self) -> None:
        """Registers all."""
        self._all.fallback(self._fallback, _KEY)
        for name in _VIEWS:
            if name not in _COMPOSITE:
                self._aten.impl(name, _view(name), _KEY)
        self._aten.impl("empty.memory_format", self._empty, _KEY)
        self._aten.impl("empty_strided", self._empty_strided, _KEY)
        self._aten.impl("_efficientzerotensor", self._zeros, _KEY)
        self._aten.impl("resize_", self._resize, _KEY)
        self._aten.impl("_copy_from", self._copy_from, _KEY)
        for key in ("Conjugate", "Negative"):  # else a copy makes a copy first, without an end
            self._aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
        self._aten.impl("_copy_from_and_resize", self._copy_from, _KEY)
        self._aten.impl("_local_scalar_dense", self._item, _KEY)
        self._aten.impl("equal", self._equal, _KEY)
        for key in (_KEY, "Autograd" + _KEY):  # the second comes before a subclass is asked, which has no answer
            self._aten.impl("_has_compatible_shallow_copy_type", _of_one_kind, key)
        own: dict[str, Overload] = {}
        for name, row in sorted(rows().items()):
            if name in ("copy_", "_to_copy") or "::" in name and name not in own_ops.OPS:
                continue  # comes as _copy_from; is below; is registered by `recurrent`
            try:
                kernel = Overload.of(row)
            except AttributeError:
                continue  # this PyTorch has no such overload
            if name in own_ops.OPS:
                own[name] = kernel
            else:
                recorded = functools.partial(self._recorded, kernel)
                self._register(name, masks.of_booleans(name, recorded), kernel)
        for name, call in {**Composed(own).kernels(), **Fused(own).kernels()}.items():
            self._register(name, call)
        self._copy, self._cast = Overload.of(rows()["copy_"]), Overload.of(rows()["_to_copy"])
        self._aten.impl("_to_copy", self._to_copy, _KEY)
        self._aten.impl("clone", self._to_copy, _KEY)
        self._recurrent = [*recurrent.register(self._kernel), packed_sequences.register()]
        self._hpu = hpu_ops.register(self._kernel)
        attention.register(self._aten)
        for name, kernel_of in replaced.kernels(self._fallback):
            self._aten.impl(name, kernel_of, _KEY)
        for overload in foreach.overloads():
            self._aten.impl(overload.name().removeprefix("aten::"), foreach.OnLists(overload), _KEY)

    def _register(self, name: str, call: Callable[..., Any], kernel: Overload | None = None) -> None:
        """Registers a kernel; where the user wants the overload on the CPU, a function that runs it there."""
        kept = {each.removeprefix("aten::") for each in PT_HPU_PLACE_ON_CPU.get()}
        if name in kept or name.partition(".")[0] in kept:

            def on_cpu(*args: Any, **kwargs: Any) -> Any:
                given = (args, kwargs) if kernel is None else kernel.on_others(args, kwargs)
                stock = overload_of(name) if kernel is None else kernel.stock
                return fallback.run(stock, *given, fallback.SETTING)

            call = on_cpu
        self._aten.impl(name, call, _KEY)

    def _kernel(self, name: str) -> Callable[..., Any]:
        """What records calls of a row."""
        return functools.partial(self._recorded, Overload.of(rows()[name]))

    def _recorded(self, kernel: Overload, *args: Any, **kwargs: Any) -> Any:
        try:
            return current.recorder().record(kernel, args, kwargs)
        except NotRecorded as why:
            return fallback.run(kernel.stock, *kernel.on_others(args, kwargs), str(why))

    def _fallback(self, overload: Any, *args: Any, **kwargs: Any) -> Any:
        made = out_overloads.run(overload, args, kwargs)
        return fallback.run(overload, args, kwargs, fallback.NO_ROW) if made is None else made

    # -- memory -------------------------------------------------------------------------------------------

    def _empty(
        self, size: Sequence[int], *, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None,
        pin_memory: bool | None = None, memory_format: torch.memory_format | None = None,
    ) -> torch.Tensor:  # fmt: skip
        if device is not None and device.index:
            index(device)
        shape = tuple(size)
        if memory_format in (None, torch.contiguous_format, torch.preserve_format):
            return filled(self._new(shape, contiguous_strides(shape), dtype))
        like = torch.empty(shape, dtype=dtype, device="meta", memory_format=memory_format)
        return filled(self._new(shape, like.stride(), dtype))

    def _empty_strided(
        self, size: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype | None = None, layout: Any = None,
        device: Any = None, pin_memory: bool | None = None,
    ) -> torch.Tensor:  # fmt: skip
        if device is not None and device.index:
            index(device)
        if len(size) != len(stride) or any(s < 0 for s in stride):
            torch.empty_strided(size, stride, device="cpu")  # raises
        return filled(self._new(tuple(size), tuple(stride), dtype))

    def _new(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype | None) -> torch.Tensor:
        kind = dtype or torch.get_default_dtype()
        if not has(kind):
            raise TypeError(f"HPU has no tensors of {kind}")
        if kind is torch.complex32:
            torch.empty(0, dtype=kind, device="cpu")  # warns once, as for each device
        recorder = current.recorder()
        with recorder.lock:
            return recorder.tensor(shape, strides, kind)[0]

    def _zeros(self, size: Sequence[int], **options: Any) -> torch.Tensor:
        """Zeros. PyTorch means a tensor without memory here, with which forward derivatives begin."""
        return self._empty(size, **options).zero_()

    def _resize(self, t: torch.Tensor, size: Sequence[int], *, memory_format: Any = None) -> torch.Tensor:
        """Gives a tensor another size in the same memory. Where that is too small, it gets new memory with the old
        elements in front; views of the old memory do not follow."""
        shape, offset, storage = tuple(size), t.storage_offset(), t.untyped_storage()
        if shape == t.shape and memory_format is None:
            return t
        like = torch.empty(shape, dtype=t.dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
        count = offset + like.numel()
        if count * t.element_size() > storage.nbytes():
            new = self._new((count,), (1,), t.dtype)
            kept = storage.nbytes() // t.element_size()
            if kept:
                old = fallback.host_view(t.as_strided((kept,), (1,), 0), False)
                fallback.host_view(new, True)[:kept].copy_(old)
            filled(new[kept:])
            storage = new.untyped_storage()
        return t.set_(storage, offset, shape, like.stride())

    # -- copies -------------------------------------------------------------------------------------------

    def _copy_from(self, source: Any, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if not isinstance(source, torch.Tensor):  # a number, which PyTorch hands over as it is
            source = torch.tensor(source, dtype=torch.float64 if isinstance(source, float) else None, device="cpu")
        turned = source.is_conj() or source.is_neg() or target.is_conj() or target.is_neg()
        if source.device.type == "hpu" and target.device.type == "hpu" and not turned:
            if not _same_elements(source, target):  # as of `x[i] += 1`, which writes x[i] into itself
                bytes_ = source.dtype is torch.uint8 and target.dtype is torch.uint8
                self._recorded(self._copy, *(self._as_held(target, source) if bytes_ else (target, source)))
        elif current.recorder().unrun is not None:
            current.recorder().unrun.copied(source, target)
        elif target.device.type == "hpu":
            whole: dict[int, torch.Tensor] = {}
            of_card = source.device.type == "hpu"
            given = fallback.host_view(source, False, whole) if of_card else source
            to = fallback.host_view(target, True, whole if of_card else None)
            with telemetry.copied(EventKind.TO_CARD, to.nbytes):
                fallback.copy(given, to)
        else:
            with ending("a tensor is read (.cpu(), .tolist(), print)", True):
                taken = fallback.host_view(source, False)
            with telemetry.copied(EventKind.FROM_CARD, taken.nbytes):
                fallback.copy(taken, target)
        return target

    def _as_held(self, target: torch.Tensor, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A copy of bytes between two whole storages as a copy of the elements that they hold; `copy.deepcopy` copies
        storages so. Others stay a copy of bytes."""
        memory = current.recorder().memory
        held, to = memory.of(source), memory.of(target)
        size = math.prod(held.shape) * held.dtype.itemsize
        alike = size == held.size == to.size == source.numel() == target.numel()
        if not alike or PRIMITIVE.get(held.dtype) not in COMPUTED or held.dtype is torch.uint8:
            return target, source
        strides = contiguous_strides(held.shape)
        made = [torch.empty(0, dtype=held.dtype, device="hpu") for _ in range(2)]
        for t, each in zip(made, (target, source), strict=True):
            t.set_(each.untyped_storage(), 0, held.shape, strides)
        return made[0], made[1]

    def _equal(self, x: torch.Tensor, y: torch.Tensor) -> bool:
        if x.device != y.device:
            two = f"{x.device} and {y.device}"
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {two}!")
        with ending("a number is read (torch.equal)", True):
            return torch.equal(*(fallback.host_view(t, False) for t in (x, y)))

    def _to_copy(
        self, t: torch.Tensor, *, dtype: torch.dtype | None = None, layout: Any = None,
        device: torch.device | None = None, pin_memory: bool | None = None, non_blocking: bool = False,
        memory_format: torch.memory_format | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """A copy of a tensor in another type or on another device. It is never in pinned memory, because no copy is
        asynchronous."""
        form = memory_format or torch.preserve_format
        here = t.device.type == "hpu" and (device is None or device.type == "hpu" and not device.index)
        if here and not t.is_conj() and not t.is_neg():
            with contextlib.suppress(NotRecorded):
                made: torch.Tensor = current.recorder().record(
                    self._cast, (t,), {"dtype": dtype or t.dtype, "memory_format": form}
                )
                return made
        plain = t.device.type == "cpu" and t.layout is torch.strided and has(t.dtype) and not t.is_conj()
        same = dtype in (None, t.dtype) and form is torch.preserve_format and current.recorder().unrun is None
        if plain and same and device is not None and device.type == "hpu" and not device.index:
            with current.recorder().lock, telemetry.copied(EventKind.TO_CARD, t.nbytes):
                return fallback.to_device(t)
        return torch.empty_like(t, dtype=dtype, device=device, memory_format=form).copy_(t)

    def _item(self, t: torch.Tensor) -> Any:
        with ending("a number is read (.item(), if, int())", True):
            return torch.ops.aten._local_scalar_dense(fallback.host_view(t, False))


def _of_one_kind(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether `one.data = other` is allowed: between tensors of the host and of the device, as PyTorch allows it for
    devices of its own. So a module that is moved keeps its parameter objects, and all references to them."""
    return all(
        t.layout is torch.strided and t.device.type in ("cpu", "hpu") and not t.is_quantized and not t.is_nested
        for t in (one, other)
    )


def _same_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same view of the same memory, with a place of its own for each element."""
    return (
        a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype
        and 0 not in a.stride()
    )  # fmt: skip


def _view(name: str) -> Callable[..., Any]:
    return functools.partial(overload_of(name)._op_dk, torch._C.DispatchKey.CPU)
