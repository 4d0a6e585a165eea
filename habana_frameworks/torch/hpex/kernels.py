"""Habana's fused kernels. Those for fp8, CTC loss, embedding bags and approximate softmax are not here."""

from habana_tf.torch.hpex.kernels import (
    FusedSDPA,
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)

__all__ = [
    "FusedSDPA", "RotaryPosEmbeddingHelperV1", "RotaryPosEmbeddingHelperV2", "RotaryPosEmbeddingMode",
    "apply_rotary_pos_emb",
]  # fmt: skip
