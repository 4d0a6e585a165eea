"""Counts copies, ops on the CPU, compiled programs and training steps, for reports, timelines, `hl-smi` and
`habana-tf top`. Launches are counted by the runtime itself.

A step ends with `optimizer.step()`. In a process where no optimizer has run, as in inference, it ends with `mark_step`
or with a compiled call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from habana_tf._native import _bridge
from habana_tf.card.timeline.record import EventKind
from habana_tf.resolver import placements

_MARKED = 1
"""The number under which steps without an optimizer are counted."""
_trained = False


@contextmanager
def copied(kind: EventKind, nbytes: int) -> Iterator[None]:
    """Within it a copy of so many bytes is made; counts it."""
    start = time.monotonic_ns()
    yield
    if nbytes:
        _bridge.count_event(int(kind), start, nbytes)


@contextmanager
def on_cpu(op: str) -> Iterator[None]:
    """Within it an op runs on the CPU; counts it."""
    start = time.monotonic_ns()
    yield
    _bridge.count_event(int(EventKind.CPU_OP), start, 0, op)


def resolved(start: int, program: Any) -> None:
    """Counts a program that was compiled or loaded between `start`, in nanoseconds of CLOCK_MONOTONIC, and now."""
    _bridge.count_event(int(EventKind.RESOLVE), start, _bridge.program_number(program))


def marked() -> None:
    """Counts a step that `mark_step` or a compiled call has ended, where no optimizer ends steps."""
    if not _trained:
        placements.note_step()
        _bridge.count_update(_MARKED)


def _stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    global _trained
    if torch.compiler.is_compiling():
        return  # what is traced here would cut the compiled step in two
    groups = optimizer.param_groups
    if groups and groups[0]["params"] and groups[0]["params"][0].device.type == "hpu":
        _trained = True
        placements.note_step()
        _bridge.count_update(id(optimizer))


def begin() -> None:
    """Counts the steps of optimizers from now on."""
    register_optimizer_step_post_hook(_stepped)
