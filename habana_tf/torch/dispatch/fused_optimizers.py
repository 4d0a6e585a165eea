"""Fused optimizers (`Adam(fused=True)`): the step on all weights is one op of our own.

PyTorch's overloads give the coefficients. Programs read logarithms and differences of them, which are computed here in
float64, because 1 - beta^step would lose three digits in float32. A step with scaled gradients runs by PyTorch's kernel
on the CPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from habana_tf.torch.dispatch import fallback
from habana_tf.torch.ops.own_ops import NAMESPACE
from habana_tf.torch.record import current
from habana_tf.torch.record.overload import NotRecorded, Overload, overload_of

_SCALED = "a program has no scale of gradients"


class Fused:
    """own: the rows of our own ops, by name."""

    def __init__(self, own: dict[str, Overload]) -> None:
        self.own = own

    def kernels(self) -> dict[str, Callable[..., Any]]:
        """By overload."""
        made: dict[str, Callable[..., Any]] = {}
        for packet in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_"):
            numbers = _sgd if packet == "_fused_sgd_" else functools.partial(_adam, packet == "_fused_adamw_")
            for name in (packet, f"{packet}.tensor_lr"):
                made[name] = functools.partial(self._step, overload_of(name), numbers)
        return made

    def _step(self, overload: Any, numbers: Callable[..., Any], *lists: Any, **given: Any) -> None:
        """Records a step. numbers: gives the name of our op and its numbers, from PyTorch's arguments."""
        why = _SCALED
        if given.get("grad_scale") is None and given.get("found_inf") is None:
            name, rest = numbers(**given)
            recorder = current.recorder()
            try:
                with recorder.lock, recorder.together():
                    recorder.record(self.own[f"{NAMESPACE}{name}"], (*lists, *rest), {})
                return
            except NotRecorded as refused:
                why = str(refused)
        fallback.run(overload, lists, given, why)


def _adam(
    decoupled: bool, *, lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, maximize: bool, **_: Any
) -> tuple[str, Sequence[Any]]:
    decay = float(weight_decay) if weight_decay else None
    parts = [n for beta in (beta1, beta2) for n in (1.0 - beta, math.log(beta) if beta else -math.inf)]
    return "fused_adam_", (lr, *parts, decay, float(eps), maximize, decoupled)


def _sgd(
    *, lr: Any, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool,
    is_first_step: bool, **_: Any,
) -> tuple[str, Sequence[Any]]:  # fmt: skip
    decay = float(weight_decay) if weight_decay else None
    return "fused_sgd_", (lr, float(momentum), 1.0 - dampening, decay, nesterov, maximize, is_first_step)
