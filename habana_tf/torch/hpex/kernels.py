"""Habana's fused norms, losses and moving average as formulas of PyTorch's ops: lazy mode and torch.compile make one
program of each."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import torch
from torch.nn import functional as F

from habana_tf.torch.hpex.one_program import ends_a_step
from habana_tf.torch.hpu_ops.layers import normed
from habana_tf.torch.record import current


class FusedClipNorm:
    """Scales gradients so that together they have at most a norm. parameters: only Habana's needs them here."""

    def __init__(self, parameters: Iterable[Any], max_norm: float) -> None:
        self.max_norm = max_norm

    def clip_norm(self, parameters: Any) -> torch.Tensor:
        """Scales the gradients of parameters in place; returns their norm before, a tensor of the device. In lazy mode
        it is a part of the program that is recorded."""
        recorder = current.recorder()
        if recorder.lazy:
            return torch.nn.utils.clip_grad_norm_(parameters, self.max_norm)
        with recorder.recorded():
            return torch.nn.utils.clip_grad_norm_(parameters, self.max_norm)


class RmsNormBwdMode(Enum):
    """Which of Habana's kernels gives the gradients of `FusedRMSNorm`; all give the same."""

    DEFAULT = 0
    STATIC_CASE_WIDTH_PARTITIONING = 1


class FusedRMSNorm:
    """x / sqrt(mean(x^2) + eps) * gamma over the last axis."""

    @staticmethod
    def apply(
        data_in: torch.Tensor,
        gamma: torch.Tensor,
        eps: float,
        use_stages: bool = True,
        bwd_mode: RmsNormBwdMode | int = 0,
        fast_math: bool = False,
    ) -> torch.Tensor:
        """The norm. The last three choose between Habana's kernels and change nothing here."""
        return normed(data_in, gamma, eps)


class CustomSoftmax:
    """Softmax over the last axis."""

    @staticmethod
    def apply(inp: torch.Tensor, flavor: int = 0) -> torch.Tensor:
        """The softmax. flavor: how exact Habana's kernel is, which changes nothing here."""
        return torch.softmax(inp, -1)


class CTCLoss:
    """The loss of connectionist temporal classification."""

    @staticmethod
    def apply(
        log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: torch.Tensor, target_lengths: torch.Tensor,
        blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        """As torch.nn.functional.ctc_loss: log_probs [time, batch, classes] or [time, classes]."""
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


class FusedEMA:
    """A copy of a model, `ema`, whose floating-point state follows that of the model:

    d = decay (1 - exp(-updates / 2000)),  ema = d ema + (1 - d) model
    """

    def __init__(self, model: torch.nn.Module, decay: float = 0.9999, updates: int = 0) -> None:
        if decay < 0:
            raise ValueError(f"Invalid decay value: {decay}")
        self.ema = copy.deepcopy(_single(model)).eval().requires_grad_(False)
        self.updates = updates
        self.decay = lambda n: decay * (1 - math.exp(-n / 2000))

    @ends_a_step
    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        """Moves the copy towards the model."""
        self.updates += 1
        now = _single(model).state_dict()
        kept = {k: v for k, v in self.ema.state_dict().items() if v.is_floating_point()}
        torch._foreach_lerp_(list(kept.values()), [now[k] for k in kept], 1 - self.decay(self.updates))

    def update_attr(
        self, model: torch.nn.Module, include: Sequence[str] = (), exclude: Sequence[str] = ("process_group", "reducer")
    ) -> None:
        """Copies attributes that are no parameters: of `include` or else all, but of `exclude`."""
        for name, value in vars(model).items():
            if not (include and name not in include or name.startswith("_") or name in exclude):
                setattr(self.ema, name, value)


def _single(model: torch.nn.Module) -> Any:
    parallel = torch.nn.parallel
    return model.module if isinstance(model, (parallel.DataParallel, parallel.DistributedDataParallel)) else model
