"""Forward passes that are repeated for their gradients (activation checkpointing), in 8 bits.

A repeated pass must cast as the first did. While a backward pass runs, modules take a forward pass for a repeated one:
it measures nothing and changes no scale. Where other passes of the same module come between the two, as in a pipeline,
the first has to say that it will be repeated, by `activation_checkpointing`, so that its scales are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as stock_checkpoint

from habana_tf.torch.transformer_engine import fp8

__all__ = [
    "activation_checkpointing",
    "checkpoint",
    "in_fp8_activation_recompute_phase",
    "is_fp8_activation_recompute_enabled",
]

_depth = 0
"""Of contexts of `activation_checkpointing`."""


def is_fp8_activation_recompute_enabled() -> bool:
    """Whether forward passes are to be repeated, in 8 bits."""
    return _depth > 0 and fp8.is_fp8_enabled()


def in_fp8_activation_recompute_phase() -> bool:
    """Whether a forward pass now is a repeated one: whether it is part of a backward pass."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


class activation_checkpointing(contextlib.ContextDecorator):
    """Forward passes within this context, or function, are to be repeated. A function that is made while modules
    compute in 8 bits has them do so when it is repeated, after `fp8_autocast` has ended."""

    def __init__(self) -> None:
        self.autocasts: list[fp8.fp8_autocast] = []
        self.recipe = fp8.get_fp8_recipe() if fp8.is_fp8_enabled() else None
        self.group = fp8.get_fp8_group()

    def __enter__(self) -> None:
        global _depth
        _depth += 1
        enabled = fp8.is_fp8_enabled() or self.recipe is not None
        recipe, group = (self.recipe, self.group) if self.recipe else (fp8.get_fp8_recipe(), fp8.get_fp8_group())
        self.autocasts.append(fp8.fp8_autocast(enabled, fp8_recipe=recipe, fp8_group=group))
        self.autocasts[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        global _depth
        _depth -= 1
        self.autocasts.pop().__exit__(*error)


def checkpoint(
    function: Callable[..., Any], distribute_saved_activations: bool, get_rng_state_tracker: Callable[[], Any] | None,
    tp_group: Any, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """function(*args, **kwargs), which is run again for its gradients, with the states of Megatron's tracker of random
    numbers that it had. Raises NotImplementedError for distribute_saved_activations, which spreads inputs over ranks.
    """
    if distribute_saved_activations:
        raise NotImplementedError("te.distributed.checkpoint has no distribute_saved_activations here")
    states: list[Any] = []

    def run(*args: Any, **kwargs: Any) -> Any:
        if get_rng_state_tracker is None:
            return function(*args, **kwargs)
        tracker = get_rng_state_tracker()
        now = tracker.get_states()
        if not states:
            states.append(now)
            return function(*args, **kwargs)
        tracker.set_states(states[0])
        try:
            return function(*args, **kwargs)
        finally:
            tracker.set_states(now)

    return stock_checkpoint(activation_checkpointing()(run), *args, use_reentrant=False, **kwargs)
