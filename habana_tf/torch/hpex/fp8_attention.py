"""Habana's fused attention of tensors in 8 bits."""

from __future__ import annotations

import math

import torch

from habana_tf.torch.device.switches import recompute_sdp_enabled
from habana_tf.torch.hpu_ops.attention import Scale

__all__ = ["fp8_fused_sdpa", "gqa_input_reshape_fwd", "gqa_output_reshape", "is_gqa"]


def is_gqa(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether several heads of q share one of k, which has more than one."""
    return q.dim() == 4 and k.shape[1] not in (1, q.shape[1])


def gqa_input_reshape_fwd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attention_mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """[batch, heads, ..] as [batch, groups, heads of a group, ..], with one head of k and v a group. Raises
    RuntimeError for heads that do not divide each other."""
    groups = k.shape[1]
    of, rest = divmod(q.shape[1], groups)
    if rest:
        raise RuntimeError(f"attention: {q.shape[1]} heads of queries cannot share {groups} heads of keys evenly")
    if attention_mask is not None:
        attention_mask = attention_mask[(None,) * (4 - attention_mask.dim())]
        shared = attention_mask.shape[1] != q.shape[1]
        attention_mask = attention_mask.unsqueeze(1) if shared else attention_mask.unflatten(1, (groups, of))
    return q.unflatten(1, (groups, of)), k.unsqueeze(2), v.unsqueeze(2), attention_mask


def gqa_output_reshape(tensor: torch.Tensor) -> torch.Tensor:
    """[batch, groups, heads of a group, ..] as [batch, heads, ..]."""
    return tensor.flatten(1, 2)


def fp8_fused_sdpa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, softmax_mode: str = "None", d_scale_q: Scale = None,
    d_scale_k: Scale = None, d_scale_v: Scale = None, q_scale_s: Scale = None, q_scale_o: Scale = None,
    d_scale_s: Scale = None, is_amax_s: bool = False, is_amax_o: bool = False,
    valid_seq_len: torch.Tensor | None = None, seq_padding_type: str = "left", recompute: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """The attention's result, the largest of its weights, and of its results where gradients would compute the weights
    again (`recompute`, or what `torch.hpu.sdp_kernel` says), else None. d_scale_x undoes the scale of x, q_scale_x
    casts x; q, k and v may also be in 16 bits, to measure."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    again = recompute_sdp_enabled() if recompute is None else recompute
    shared = is_gqa(q, k)
    if shared:
        q, k, v, attn_mask = gqa_input_reshape_fwd(q, k, v, attn_mask)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    how = q, k, v, attn_mask, dropout_p, scale, is_causal
    if again:
        made, _, _, _, weight, result = torch.ops.hpu.fp8_sdpa_recomp_fwd(
            *how, False, softmax_mode, *scales, is_amax_s, is_amax_o, valid_seq_len, seq_padding_type
        )
    else:
        made, _, _, weight = torch.ops.hpu.fp8_sdpa_fwd(
            *how, softmax_mode, *scales, is_amax_s, valid_seq_len, seq_padding_type
        )
        result = None
    return gqa_output_reshape(made) if shared else made, weight, result
