"""DistributedDataParallel that looks for parameters without a gradient, or has a static graph, on this device.

Its C++ code tells the ranks which parameters were used through a tensor in pinned memory, which it takes from the
device's allocator; a device that is written in Python can offer none, and PyTorch raises. Nothing here copies while
something else runs, so that ordinary memory does as well: from the first such model on, `torch.empty_strided`, which
makes that tensor, has no pinned memory. A call of it then passes through Python, which takes some 20 µs; hence not
before.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.device import pinned

_LIBRARY: list[Any] = []


def _pinning_nothing(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if (self.find_unused_parameters or self.static_graph) and self.device_type == "hpu":
            _pins_nothing()

    return __init__


def _pins_nothing() -> None:
    """Has `torch.empty_strided` take ordinary memory where pinned memory is asked for."""
    if _LIBRARY:
        return
    overload = torch.ops.aten.empty_strided.default

    def empty_strided(
        size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
    ) -> Any:  # fmt: skip
        place = torch.device("cpu") if device is None else device
        key = getattr(torch._C.DispatchKey, torch._C._dispatch_key_for_device(place.type))
        made = overload._op_dk(key, size, stride, dtype=dtype, layout=layout, device=place, pin_memory=False)
        if pin_memory:
            pinned.default.remember(made)
        return made

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is one already
        library.impl("empty_strided", empty_strided, "BackendSelect")
    _LIBRARY.append(library)


GROUPS = (
    Group(
        "unused_parameters", "DistributedDataParallel raises with find_unused_parameters or static_graph",
        (Change("torch.nn.parallel.distributed", "DistributedDataParallel.__init__", _pinning_nothing),),
        end=_LIBRARY.clear, framework=PYTORCH,
    ),
)  # fmt: skip
