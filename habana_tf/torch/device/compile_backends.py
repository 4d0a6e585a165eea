"""Tells `torch.compile` of the device, when PyTorch imports the modules that `torch.compile` needs. So loading the
device imports neither Dynamo nor Inductor.

`backend="hpu_backend"` is registered here, because the entry point is there only where the package is installed as a
distribution. Inductor, the default backend of `torch.compile`, cannot generate code for the device; it gets a code
generator that raises an error which says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from habana_tf.host_changes.after_import import when_imported


def announce() -> None:
    """Tells Dynamo and Inductor of the device: now, or when they are imported."""
    when_imported("torch._dynamo.backends.registry", _tell_dynamo)
    when_imported("torch._inductor.codegen.common", _tell_inductor)


def hpu_backend(graph: Any, examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """`habana_tf.torch.compile.hpu_backend`, which is imported at the first call."""
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
    """The device's scheduler and code generator for Inductor, which raise an error."""

    supports_caching = False

    def __init__(self, *given: Any) -> None:
        """Does nothing: Inductor makes a scheduler before it generates code."""

    @staticmethod
    def create(*given: Any, **named: Any) -> NoReturn:
        """Raises RuntimeError in the place of making code."""
        raise RuntimeError(
            "torch.compile's own backend (inductor) has no code for hpu: write torch.compile(model, "
            'backend="hpu_backend"), or torch.compiler.set_default_backend("hpu_backend") where the call is not yours'
        )
