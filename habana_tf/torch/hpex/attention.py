"""Habana's fused attention as PyTorch's formula."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from habana_tf.torch.device.switches import recompute_sdp_enabled
from habana_tf.torch.hpex.fp8_attention import gqa_input_reshape_fwd, gqa_output_reshape, is_gqa
from habana_tf.torch.hpu_ops.attention import causal_and_valid

__all__ = ["FusedSDPA"]


class FusedSDPA:
    """Scaled dot product attention."""

    @staticmethod
    def apply(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, softmax_mode: str = "None",
        recompute_mode: bool | None = None, valid_seq_len: torch.Tensor | None = None, seq_padding_type: str = "left",
        return_dropout_mask: bool = False, return_attn_probs: bool = False,
    ) -> Any:  # fmt: skip
        """q, k, v: [batch, heads, positions, size]; k and v may have fewer heads, by a whole factor. valid_seq_len
        [batch]: how many positions of each sequence are no padding, which is on its left or right, by seq_padding_type;
        the results of those that are padding are 0. recompute_mode: whether gradients compute the attention's weights
        again, which else are kept for them: [batch, heads, positions, positions]; None takes what
        `torch.hpu.sdp_kernel` says. softmax_mode chooses between Habana's kernels and changes nothing here.

        With return_attn_probs the weights are returned too, and with return_dropout_mask what dropout keeps.
        Raises ValueError for valid_seq_len where a gradient is wanted, with a mask or without is_causal, and for
        another type of padding.
        """
        if valid_seq_len is not None:
            if not is_causal or attn_mask is not None or _differentiated(q, k, v):
                raise ValueError("FusedSDPA takes valid_seq_len only with is_causal, without a mask and for inference")
            attn_mask, is_causal = causal_and_valid(q.shape[-2], k.shape[-2], valid_seq_len, seq_padding_type), False
        if return_dropout_mask or return_attn_probs:
            result, *more = _with_weights(q, k, v, attn_mask, dropout_p, is_causal, scale)
            wanted = zip((return_attn_probs, return_dropout_mask), more, strict=True)
            return result, *(t for asked, t in wanted if asked)
        shared = q.dim() == 4 and q.shape[1] != k.shape[1]
        attend = functools.partial(
            F.scaled_dot_product_attention, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=shared
        )
        recompute = recompute_sdp_enabled() if recompute_mode is None else recompute_mode
        if not (recompute and _differentiated(q, k, v)):
            return attend(q, k, v, attn_mask)
        made: torch.Tensor = checkpoint(
            attend, q, k, v, attn_mask, use_reentrant=False, preserve_rng_state=dropout_p > 0
        )
        return made


def _with_weights(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, p: float, causal: bool,
    scale: float | None,
) -> list[torch.Tensor]:  # fmt: skip
    """The result, the weights, and what dropout keeps."""
    shared = is_gqa(q, k)
    if shared:
        q, k, v, mask = gqa_input_reshape_fwd(q, k, v, mask)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    made, weights, kept = torch.ops.hpu.sdpa_fwd(q, k, v, mask, p, scale, causal, "None", None, "left")
    return [gqa_output_reshape(t) if shared and t.dim() > 1 else t for t in (made, weights, kept)]


def _differentiated(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
