"""Habana's fused attention as PyTorch's formula."""

from __future__ import annotations

import functools

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from habana_tf.torch.device.switches import recompute_sdp_enabled

__all__ = ["FusedSDPA"]


class FusedSDPA:
    """Scaled dot product attention."""

    @staticmethod
    def apply(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, softmax_mode: str = "None",
        recompute_mode: bool | None = None, valid_seq_len: torch.Tensor | None = None, seq_padding_type: str = "left",
        return_dropout_mask: bool = False, return_attn_probs: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        """q, k, v: [batch, heads, positions, size]; k and v may have fewer heads, by a whole factor. valid_seq_len
        [batch]: how many positions of each sequence are no padding, which is on its left or right, by seq_padding_type;
        the results of those that are padding are 0. recompute_mode: whether gradients compute the attention's weights
        again, which else are kept for them: [batch, heads, positions, positions]; None takes what
        `torch.hpu.sdp_kernel` says. softmax_mode chooses between Habana's kernels and changes nothing here.

        Raises NotImplementedError for results besides the attention's, and ValueError for valid_seq_len where a
        gradient is wanted, with a mask or without is_causal, and for another type of padding.
        """
        if return_dropout_mask or return_attn_probs:
            raise NotImplementedError("FusedSDPA has no return_dropout_mask and return_attn_probs here")
        if valid_seq_len is not None:
            if not is_causal or attn_mask is not None or _differentiated(q, k, v):
                raise ValueError("FusedSDPA takes valid_seq_len only with is_causal, without a mask and for inference")
            attn_mask, is_causal = _causal_and_valid(q.shape[-2], k.shape[-2], valid_seq_len, seq_padding_type), False
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


def _differentiated(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _causal_and_valid(queries: int, keys: int, lengths: torch.Tensor, padding: str) -> torch.Tensor:
    """Whether a position attends to another: [batch, 1, queries, keys]."""
    if padding.lower() not in ("left", "right"):
        raise ValueError(f"FusedSDPA: seq_padding_type is left or right, not {padding!r}")
    valid = lengths.reshape(-1, 1, 1, 1)
    row = torch.arange(queries, device=lengths.device).reshape(-1, 1)
    column = torch.arange(keys, device=lengths.device)
    if padding.lower() == "right":
        return (column <= row) & (column < valid) & (row < valid)
    return (column <= row) & (column >= keys - valid)
