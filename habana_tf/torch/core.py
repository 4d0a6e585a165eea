"""What `habana_frameworks.torch.core` offers: the end of a step, and the preparation of a model for inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_tf.torch.loader import load
from habana_tf.torch.record import program_ends, telemetry

load()
_closures: list[Callable[[], object]] = []


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """Ends a step: what was recorded so far becomes one program and runs, and then what `add_step_closure` left. In
    eager mode there is nothing to run."""
    program_ends.flush("mark_step()")
    telemetry.marked()
    waiting, _closures[:] = list(_closures), []
    for closure in waiting:
        closure()


def iter_mark_step(device_str: str = "") -> None:
    """As `mark_step`: Habana's for the iterations of a loop."""
    mark_step(device_str)


def add_step_closure(closure: Callable[..., object], args: Sequence[Any] = ()) -> None:
    """Has a function called when the step ends: one that prints a loss, say, which so does not end it."""
    _closures.append(lambda: closure(*args))


def is_enabled_weight_permute_pass() -> bool:
    """True: the compiler chooses how weights lie in memory, so that a program need not permute them."""
    return True


def hpu_set_inference_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Prepares for inference. Of a model a copy is returned whose batch normalizations are part of the convolutions
    before them, which needs a model that torch.fx can trace and that is in evaluation mode."""
    if model is None:
        return None
    from torch.fx.experimental.optimization import fuse

    return fuse(model)


def hpu_inference_initialize(
    model: torch.nn.Module | None = None, mark_only_scales_as_const: bool = False, optimizer: Any = None,
    args: Any = None,
) -> None:  # fmt: skip
    """Nothing here: Habana's tells the graph compiler that weights are constants. Programs here take them as inputs, so
    that other weights need no other program."""


def hpu_teardown_inference_env() -> None:
    """Nothing here: Habana's takes back what `hpu_set_inference_env` set."""


def mark_params_as_const(
    model: torch.nn.Module | None = None, only_scales: bool = False, console_prints: bool = False
) -> None:
    """Nothing here, as `hpu_inference_initialize`: no weight needs a mark."""


def check_params_as_const(model: torch.nn.Module | None = None, only_scales: bool = False) -> None:
    """Nothing here: see `mark_params_as_const`."""


class HabanaParameterWrapper(torch.nn.Parameter):
    """For questions of the kind of a parameter: Habana's bridge has its parameters be of this class, so that modules
    which share one share it on the card, too. Here `Module.to` keeps what is shared, and none is of it."""


hpu_set_env = hpu_inference_set_env = hpu_set_inference_env
hpu_initialize = hpu_inference_initialize
hpu_reset_env = hpu_teardown_inference_env
