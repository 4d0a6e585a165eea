"""Habana's fused attention in 8 bits, and how heads that share keys are laid out for it."""

from habana_tf.torch.hpex.fp8_attention import fp8_fused_sdpa, gqa_input_reshape_fwd, gqa_output_reshape, is_gqa

__all__ = ["fp8_fused_sdpa", "gqa_input_reshape_fwd", "gqa_output_reshape", "is_gqa"]
