"""What optimizers' steps share: a step is one program, and begins with its closure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from habana_tf.torch.record import current
from habana_tf.torch.record.program_ends import ending


def ends_a_step(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose ops are one program, in eager mode too. In lazy mode it is that of all recorded so far: Habana's
    optimizers end a step, as `mark_step` does."""

    @torch.compiler.disable
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with ending("a step of Habana's optimizer"), current.recorder().recorded():
            return method(*args, **kwargs)

    return call


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """What the closure of an optimizer's step gives, with gradients; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
