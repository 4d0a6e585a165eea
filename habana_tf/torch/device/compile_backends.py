"""Tells `torch.compile` of the device once PyTorch imports what `torch.compile` is made of, so that loading the device
imports neither Dynamo nor Inductor.

`backend="hpu_backend"` is registered here, and not only by the entry point of an installed distribution. Inductor,
which is what `torch.compile` takes where no backend is named, has no code for the device: it gets a generator of code
that says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from habana_tf.host_changes.after_import import when_imported


def announce() -> None:
    """Has both told when they are imported, or now."""
    when_imported("torch._dynamo.backends.registry", _tell_dynamo)
    when_imported("torch._inductor.codegen.common", _tell_inductor)


def hpu_backend(graph: Any, examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """`compile_backend.hpu_backend`, imported at its first use."""
    backend = importlib.import_module("habana_tf.torch.compile").hpu_backend  # by name, as an entry point is
    made: Callable[..., Any] = backend(graph, examples, **options)
    return made


def _tell_dynamo(registry: ModuleType) -> None:
    if "hpu_backend" not in registry._COMPILER_FNS:
        registry.register_backend(hpu_backend)


def _tell_inductor(common: ModuleType) -> None:
    common.register_device_op_overrides("hpu", common.DeviceOpOverrides())
    common.register_backend_for_device("hpu", NoCode, NoCode, NoCode)


class NoCode:
    """A scheduler and a generator of code for Inductor, which refuse."""

    supports_caching = False

    def __init__(self, *given: Any) -> None:
        """Takes the place of a scheduler, which is not asked for anything."""

    @staticmethod
    def create(*given: Any, **named: Any) -> NoReturn:
        """Raises RuntimeError in the place of making code."""
        raise RuntimeError(
            "torch.compile's own backend (inductor) has no code for hpu: write torch.compile(model, "
            'backend="hpu_backend"), or torch.compiler.set_default_backend("hpu_backend") where the call is not yours'
        )
