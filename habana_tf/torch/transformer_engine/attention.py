"""Fused attention in 8 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from habana_tf.torch.hpex.attention import FusedSDPA
from habana_tf.torch.hpex.fp8_attention import gqa_input_reshape_fwd, gqa_output_reshape, is_gqa
from habana_tf.torch.transformer_engine import fp8
from habana_tf.torch.transformer_engine.module import Run, Scaled
from habana_tf.torch.transformer_engine.products import Cast, cast, cast_by

__all__ = ["FusedAttention"]

_WEIGHTS, _SCORES = 3, 1
"""Which scale is that of the attention's weights, after q, k and v, and of the scores' gradient, after the result's."""


@dataclass
class _Call:
    """What a call has besides tensors that have gradients."""

    run: Run
    mask: torch.Tensor | None
    dropout: float
    scale: float
    causal: bool
    dtype: torch.dtype
    group: Any


class _Attention(torch.autograd.Function):
    """The attention of q, k and v in the type of forward passes. Gradients are cast to theirs."""

    @staticmethod
    def forward(ctx: Any, call: _Call, casts: list[Cast], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        run, inverses = call.run, [c.forward_inv for c in casts]
        s_scale, s_inv = (t[_WEIGHTS].clone() for t in (run.forward.scale, run.forward.scale_inv))
        made, weights, kept, largest = torch.ops.hpu.fp8_sdpa_fwd(
            *(c.forward for c in casts), call.mask, call.dropout, call.scale, call.causal, "None", *inverses,
            s_scale, None, s_inv, run.measured, None, "left",
        )  # fmt: skip
        run.measure(run.forward, [*(c.amax for c in casts), largest.reshape(())], call.group)
        ctx.save_for_backward(*(c.forward for c in casts), weights, kept, *inverses, s_inv)
        ctx.call, ctx.types = call, [t.dtype for t in (q, k, v)]
        return made.to(call.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        call, run = ctx.call, ctx.call.run
        q, k, v, weights, kept, q_inv, k_inv, v_inv, s_inv = ctx.saved_tensors
        kind = run.kinds.backward
        g, amax, g_inv = cast_by(gradients[0], run.backward, 0, kind, run.chance, run.measured)
        ds_scale, ds_inv = run.backward.scale[_SCORES], run.backward.scale_inv[_SCORES]
        *made, largest = torch.ops.hpu.fp8_sdpa_bwd(
            g, q, k, v, weights, kept, call.causal, call.dropout, call.scale, q_inv, k_inv, v_inv, s_inv, g_inv, ds_inv,
            None, ds_scale, run.measured, g,
        )  # fmt: skip
        run.measure(run.backward, [amax, largest.reshape(())], call.group)
        return None, None, *(t.to(dtype) for t, dtype in zip(made, ctx.types, strict=True))


class FusedAttention(Scaled):
    """Scaled dot product attention, which under `fp8_autocast` multiplies 8-bit floats: q, k, v and the weights."""

    def __init__(
        self, scale: float | None = None, attention_dropout: float = 0.0, enable_recompute: bool = True,
        cp_group: Any = None, cp_global_ranks: Any = None,
    ) -> None:  # fmt: skip
        """scale: by default 1 / sqrt(size). enable_recompute: whether gradients compute the attention's weights again,
        outside of `fp8_autocast`; in 8 bits they are kept. Raises NotImplementedError where several ranks of cp_group
        would have to share a sequence."""
        super().__init__(_WEIGHTS + 1, _SCORES + 1)
        if cp_group is not None and cp_group.size() > 1:
            raise NotImplementedError("te.FusedAttention has no context parallelism here: cp_group is of one rank")
        self.scale, self.attention_dropout, self.enable_recompute = scale, attention_dropout, enable_recompute

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
        is_causal: bool = False, softmax_mode: str = "None",
    ) -> torch.Tensor:  # fmt: skip
        """[batch, heads, positions, size]; heads of the query may share keys. softmax_mode chooses between Habana's
        kernels and changes nothing here."""
        dropout = self.attention_dropout if self.training else 0.0
        if not fp8.is_fp8_enabled():
            return FusedSDPA.apply(
                query, key, value, attn_mask, dropout, is_causal, self.scale, softmax_mode, self.enable_recompute
            )
        kind = query.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
        shared = is_gqa(query, key)
        if shared:
            query, key, value, attn_mask = gqa_input_reshape_fwd(query, key, value, attn_mask)
        run = self.begin(query.device)
        with torch.no_grad():
            casts = [cast(t, run, i, False) for i, t in enumerate((query, key, value))]
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        call = _Call(run, attn_mask, dropout, scale, is_causal, dtype, fp8.get_fp8_group())
        made: torch.Tensor = _Attention.apply(call, casts, query, key, value)
        return gqa_output_reshape(made) if shared else made
