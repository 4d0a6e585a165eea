"""Habana's fused kernels as formulas of PyTorch's ops: lazy mode and torch.compile make one program of each."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import torch
from torch.nn import functional as F

from habana_tf.torch.hpex.one_program import ends_a_step
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


class FusedRMSNorm:
    """x / sqrt(mean(x^2) + eps) * gamma over the last axis."""

    @staticmethod
    def apply(
        data_in: torch.Tensor,
        gamma: torch.Tensor,
        eps: float,
        use_stages: bool = True,
        bwd_mode: int = 0,
        fast_math: bool = False,
    ) -> torch.Tensor:
        """The norm. The last three choose between Habana's kernels and change nothing here."""
        return F.rms_norm(data_in, (data_in.shape[-1],), gamma, eps)


class FusedSDPA:
    """Scaled dot product attention."""

    @staticmethod
    def apply(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, softmax_mode: str = "None",
        recompute_mode: bool | None = None, valid_seq_len: torch.Tensor | None = None, seq_padding_type: str = "left",
        return_dropout_mask: bool = False, return_attn_probs: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        """q, k, v: [batch, heads, positions, size]; k and v may have fewer heads, by a whole factor. softmax_mode and
        recompute_mode choose between Habana's kernels and change nothing here. Raises NotImplementedError for lengths
        of sequences and for results besides the attention's."""
        if valid_seq_len is not None or return_dropout_mask or return_attn_probs:
            raise NotImplementedError("FusedSDPA has no valid_seq_len, return_dropout_mask and return_attn_probs here")
        shared = q.dim() == 4 and q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=shared)


class RotaryPosEmbeddingMode(Enum):
    """Which elements are rotated together: those half a row apart, or neighbours."""

    BLOCKWISE = 0
    PAIRWISE = 1


def apply_rotary_pos_emb(
    p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: torch.Tensor | None = None, offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:  # fmt: skip
    """p cos + rotated(p) sin, of p [batch, heads, positions, size]. cos, sin: [.., positions, size], of which rows from
    `offset` on are taken, or those of position_ids [batch, positions]."""
    if position_ids is not None and cos.dim() != p.dim():
        cos, sin = (t.reshape(-1, t.shape[-1])[position_ids].unsqueeze(1) for t in (cos, sin))
    elif position_ids is not None and cos.shape[:2] == (1, 1):
        cos, sin = (t[0, 0][position_ids].unsqueeze(1) for t in (cos, sin))
    elif cos.shape[-2] != p.shape[-2]:
        cos, sin = (t[..., offset : offset + p.shape[-2], :] for t in (cos, sin))
    dtype = torch.float32 if torch.float32 in (p.dtype, cos.dtype, sin.dtype) else p.dtype
    p, cos, sin = p.to(dtype), cos.to(dtype), sin.to(dtype)
    if mode is RotaryPosEmbeddingMode.PAIRWISE:
        turned = torch.stack((-p[..., 1::2], p[..., ::2]), dim=-1).flatten(-2)
    else:
        half = p.shape[-1] // 2
        turned = torch.cat((-p[..., half:], p[..., :half]), dim=-1)
    return p * cos + turned * sin


class RotaryPosEmbeddingHelperV1:
    """GPT-NeoX's positions: rows from an offset on."""

    @staticmethod
    def apply(p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, offset: int) -> torch.Tensor:
        """See `apply_rotary_pos_emb`."""
        return apply_rotary_pos_emb(p, cos, sin, None, offset)


class RotaryPosEmbeddingHelperV2:
    """Llama's positions: rows by their numbers."""

    @staticmethod
    def apply(p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """See `apply_rotary_pos_emb`."""
        return apply_rotary_pos_emb(p, cos, sin, position_ids)


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
