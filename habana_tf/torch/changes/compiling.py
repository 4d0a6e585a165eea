"""Changes of torch.compile."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.memory.strides import format_of
from habana_tf.torch.record.overload import overload_of


def _traced(original: Any) -> bool:
    """Whether Dynamo traces LSTM and GRU. The device has ops of a whole layer (see `recurrent`), where most backends
    would get a cell for each time step."""
    return True


def _any_strides(original: Any) -> Any:
    """Whether results may have strides: everywhere. PyTorch takes the name for a card's whose tensors have none."""

    @functools.wraps(original)
    def is_noncontiguous_supported(device: Any) -> bool:
        return True

    return is_noncontiguous_supported


def _convolutions(original: Any) -> Any:
    """The format of a convolution's result, which PyTorch knows of backends in its own sources."""

    @functools.wraps(original)
    def _conv_determine_backend_memory_format(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        return format_of(x, weight) if x.device.type == "hpu" else original(x, weight, backend)

    return _conv_determine_backend_memory_format


_FOLLOW_FIRST = ("channel_shuffle", "pixel_unshuffle")
"""Ops without a row whose results have the memory format of their first argument, and PyTorch's traces row by row."""


_IN_ROWS = "upsample_bicubic2d_backward", "upsample_nearest3d_backward", "_upsample_nearest_exact3d_backward"
"""Gradients that the CPU has row by row, whatever the format of their pictures."""
_KEYS = torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd


@functools.cache
def _upsampled() -> list[Any]:
    """Overloads that traces take apart into gathers, and their gradients into scatters, before a backend sees them."""
    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        op = name.removeprefix("aten::")
        if op.startswith(("upsample_", "_upsample_nearest_exact")) and not op.endswith("out"):
            overload = overload_of(op)
            if any(key in overload.py_kernels for key in _KEYS):
                found.append(overload)
    return found


@contextlib.contextmanager
def whole_upsampling() -> Iterator[None]:
    """Has traces keep these as they are; the device has a row for each."""
    kept = [(overload, dict(overload.py_kernels)) for overload in _upsampled()]
    for overload, kernels in kept:
        for key in _KEYS:
            if kernels.get(key) is not None:
                del overload.py_kernels[key]
                if overload._overloadname == "vec":
                    overload.py_kernels[key] = functools.partial(_sized, overload)
        overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for overload, kernels in kept:
            overload.py_kernels.update(kernels)
            overload._dispatch_cache.clear()


def _sized(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """The overload that takes sizes and factors, for one that takes either; PyTorch's takes no symbols."""
    given = dict(zip((a.name for a in overload._schema.arguments), args, strict=False)) | kwargs
    x, sizes, scales = given["input"], given["output_size"], given["scale_factors"]
    if sizes is None:
        pairs = zip(x.shape[2:], scales, strict=True)
        sizes = [n * int(s) if s == int(s) else torch.sym_int(n * s) for n, s in pairs]
    aligned = [given["align_corners"]] if "align_corners" in given else []
    return overload.overloadpacket.default(x, sizes, *aligned, *(scales or [None] * len(sizes)))


@functools.cache
def _pictures() -> dict[Any, tuple[int, ...]]:
    """By overload of pictures: positions of the arguments whose memory format is the result's."""
    from habana_tf.torch.ops.table import rows

    known = {name: row.pictures for name, row in rows().items() if row.pictures and "convolution" not in name}
    known |= dict.fromkeys(_FOLLOW_FIRST, (0,))
    known |= {name: (0,) for name in rows() if "upsample" in name}
    return {overload_of(name): places for name, places in known.items()}


def _picture(mode: Any, overload: Any, *args: Any, **kwargs: Any) -> Any:
    """What a trace takes for the result of one of these."""
    from torch._subclasses import fake_impls, fake_tensor

    (device,) = {t.device for t in args if isinstance(t, torch.Tensor)}
    if device.type != "hpu":
        return NotImplemented
    form = format_of(*(args[k] for k in _pictures()[overload]))
    with fake_impls.in_kernel_invocation_manager(mode):
        if "upsample" in overload._opname:  # whose kernels for shapes take no symbols
            shape = args[2] if "backward" in overload._opname else (*args[0].shape[:2], *args[1])
            made = torch.empty(shape, dtype=args[0].dtype, device="meta")
            if overload._opname in _IN_ROWS:
                form = torch.contiguous_format
        else:
            made = overload(*args, **kwargs)
        if form is not torch.contiguous_format and made.dim() == (4 if form is torch.channels_last else 5):
            made = torch.empty(made.shape, dtype=made.dtype, device="meta", memory_format=form)
    return fake_tensor.FakeTensor(mode, made, device)


def _trace_pictures(started: bool) -> None:
    from torch._subclasses import fake_impls

    for overload in _pictures():
        fake_impls.op_implementations_dict.setdefault(overload, _picture)


def _forget_pictures() -> None:
    from torch._subclasses import fake_impls

    for overload in _pictures():
        if fake_impls.op_implementations_dict.get(overload) is _picture:
            del fake_impls.op_implementations_dict[overload]


RECURRENT = Group(
    "traced_recurrent_layers", "torch.compile runs functions with LSTM or GRU op by op, and fullgraph=True raises",
    (Change("torch._dynamo.config", "allow_rnn", _traced),),
    worth="12 ms in the place of 18 for a step of two layers of LSTM, 8 x 32 x 256, on two cores", framework=PYTORCH,
)  # fmt: skip
STRIDES = Group(
    "traced_strides", "what a compiled graph gives lies row by row in memory, whatever its arguments do",
    (
        Change("torch._refs", "is_noncontiguous_supported", _any_strides),
        Change("torch._subclasses.fake_impls", "is_noncontiguous_supported", _any_strides),
        Change("torch._C", "_conv_determine_backend_memory_format", _convolutions),
    ), numbers=True, begin=_trace_pictures, end=_forget_pictures, framework=PYTORCH,
)  # fmt: skip
