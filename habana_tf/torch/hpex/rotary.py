"""Habana's rotary positions, by the op `torch.ops.hpu.rotary_pos_embedding`'s formula."""

from __future__ import annotations

from enum import Enum

import torch

from habana_tf.torch.hpu_ops.layers import rotary

__all__ = [
    "RotaryPosEmbeddingHelperV1", "RotaryPosEmbeddingHelperV2", "RotaryPosEmbeddingHelperV3", "RotaryPosEmbeddingMode",
    "apply_rotary_pos_emb",
]  # fmt: skip


class RotaryPosEmbeddingMode(Enum):
    """Which elements are rotated together: those half a row apart, or neighbours."""

    BLOCKWISE = 0
    PAIRWISE = 1


def apply_rotary_pos_emb(
    p: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor | None = None, position_ids: torch.Tensor | None = None,
    offset: int = 0, mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:  # fmt: skip
    """p cos + rotated(p) sin, of p [batch, heads, positions, size]. cos, sin: [.., positions, size], of which rows from
    `offset` on are taken, or those of position_ids [batch, positions]. Without sin, `cos` is a cache as
    `RotaryPosEmbeddingHelperV3` takes."""
    if sin is None:
        return RotaryPosEmbeddingHelperV3.apply(p, cos)
    return rotary(p, sin, cos, position_ids, offset, mode.value)


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


class RotaryPosEmbeddingHelperV3:
    """ChatGLM's positions: neighbours in the first part of a row are rotated, the rest of it stays."""

    @staticmethod
    def apply(p: torch.Tensor, rope_cache: torch.Tensor) -> torch.Tensor:
        """p: [positions, batch, heads, size]. rope_cache: [positions or more, .., pairs, 2], a cosine and a sine for
        each pair of neighbours."""
        positions, _, heads, _ = p.shape
        size = 2 * rope_cache.shape[-2]
        waves = rope_cache[:positions].reshape(positions, -1, 1, size // 2, 2).to(p.dtype)
        cos, sin = (waves[..., k].repeat_interleave(2, -1) for k in (0, 1))
        turned = rotary(p[..., :size].reshape(positions, -1, heads, size), sin, cos, mode=1)
        return turned if size == p.shape[-1] else torch.cat((turned, p[..., size:]), -1)
