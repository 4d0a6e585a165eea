"""What tests of torch.compile share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH

if HAS_TORCH:
    import torch


def compiled(f: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    made: Callable[..., Any] = torch.compile(f, backend="hpu_backend", **more)
    return made


def overloads(run: Callable[[], Any]) -> list[str]:
    """The overloads that are recorded meanwhile."""
    from habana_tf.torch import loader

    recorder = loader.load()
    names: list[str] = []
    record = recorder.record

    def noted(kernel: Any, args: Any, kwargs: Any) -> Any:
        names.append(kernel.row.name)
        return record(kernel, args, kwargs)

    recorder.record = noted  # type: ignore[method-assign]
    try:
        run()
    finally:
        del recorder.record
    return names


def launches(run: Callable[[], Any]) -> int:
    """How many programs run meanwhile, those that wait before and after it left out."""
    from habana_tf.torch.record import loaded_program

    torch.hpu.synchronize()
    count, original = 0, loaded_program.LoadedProgram.run

    def counted(*args: Any) -> None:
        nonlocal count
        count += 1
        original(*args)

    loaded_program.LoadedProgram.run = counted  # type: ignore[method-assign]
    try:
        run()
        torch.hpu.synchronize()
    finally:
        loaded_program.LoadedProgram.run = original  # type: ignore[method-assign]
    return count
