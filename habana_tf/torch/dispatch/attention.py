"""Attention on bf16 tensors: its two products in bf16, with sums in fp32, as a card computes them.

For devices without a kernel of attention PyTorch has a formula, which first casts such tensors to fp32: twice the
bytes, and no product in bf16. PyTorch has a switch for that, but only one for all devices of the process. fp16 tensors
are still computed by PyTorch's formula, because scores may be beyond the range of fp16.

Where PyTorch's CPU has a kernel of attention, the result lies in memory as the query does: with heads that a model has
split from its channels that is position by position, so that joining the heads again copies nothing.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from habana_tf.torch.memory.strides import hints, order_of_strides

_NAME = "_scaled_dot_product_attention_math"
_stock = getattr(torch.ops.aten, _NAME).default


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, dropout_mask: torch.Tensor | None = None, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The result of attention, and the weights that it gave the values."""
    made, weights = _computed(
        query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale=scale, enable_gqa=enable_gqa
    )
    if query.is_contiguous() or dropout_p > 0 or not _has_kernel(query, key, value, attn_mask):
        return made, weights
    like = torch.empty_like(query, device="meta")
    order = order_of_strides(hints(like.shape), hints(like.stride()))
    if order is None:
        return made, weights
    return made.permute(order).contiguous().permute([order.index(k) for k in range(4)]), weights


def _has_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether PyTorch's CPU has a kernel of attention for these operands, rather than the formula."""
    if query.dim() != 4 or mask is not None and (mask.requires_grad or mask.dim() not in (2, 4)):
        return False
    sizes, lengths = {t.shape[3] for t in (query, key, value)}, (query.shape[2], key.shape[2])
    alike = query.shape[0] == key.shape[0] == value.shape[0] and key.shape[1] == value.shape[1]
    return alike and len(sizes) == 1 and 0 not in lengths and all(t.stride(3) == 1 for t in (query, key, value))


def _computed(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None, dropout_p: float,
    is_causal: bool, dropout_mask: torch.Tensor | None, *, scale: float | None, enable_gqa: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    if query.dtype is not torch.bfloat16 or dropout_mask is not None or (is_causal and attn_mask is not None):
        return _on_others(
            query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        heads = query.shape[-3]
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if is_causal:
        sizes = query.shape[-2], key.shape[-2]
        attn_mask = torch.full(sizes, -math.inf, dtype=query.dtype, device=query.device).triu(1)
    scores = torch.matmul(query * scale, key.transpose(-2, -1))
    if attn_mask is not None:
        scores = scores + attn_mask.to(scores.dtype)
    weights = torch.ops.aten._safe_softmax(scores, -1)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    return torch.matmul(weights, value), weights


def _on_others(*args: Any, **kwargs: Any) -> Any:
    return _stock._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def register(library: Any) -> None:
    """Makes this the device's attention, with and without gradients. The gradients are those of the ops that it
    calls."""
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        library.impl(_NAME, attention, key)
