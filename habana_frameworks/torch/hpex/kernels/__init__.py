"""Habana's fused kernels. Those for embedding bags are not here."""

from habana_frameworks.torch.hpex.kernels import Fp8FusedSDPA, Fp8Ops
from habana_tf.torch.hpex.attention import FusedSDPA
from habana_tf.torch.hpex.fp8_attention import fp8_fused_sdpa, gqa_output_reshape
from habana_tf.torch.hpex.kernels import CTCLoss, CustomSoftmax
from habana_tf.torch.hpex.rotary import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)

__all__ = [
    "CTCLoss", "CustomSoftmax", "Fp8FusedSDPA", "Fp8Ops", "FusedSDPA", "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2", "RotaryPosEmbeddingHelperV3", "RotaryPosEmbeddingMode", "apply_rotary_pos_emb",
    "fp8_fused_sdpa", "gqa_output_reshape",
]  # fmt: skip
