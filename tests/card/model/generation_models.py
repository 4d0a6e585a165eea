"""Configurations of published language models, as `transformers` has them."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig

from habana_tf.torch.dry_run.generation import FUSED, use_habanas_attention

_OF_70B = {
    "kind": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8,
}  # fmt: skip
_OF_7B = {
    "kind": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32,
}  # fmt: skip
_OF_8B = {**_OF_7B, "intermediate_size": 14336, "num_key_value_heads": 8}
_QWEN = {
    "kind": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
}  # fmt: skip
_MODELS: dict[str, dict[str, Any]] = {
    "LLaMA 2 7B": {**_OF_7B, "vocab_size": 32000},
    "LLaMA 2 70B": {**_OF_70B, "vocab_size": 32000},
    "LLaMA 3.1 8B": {**_OF_8B, "vocab_size": 128256},
    "LLaMA 3.1 70B": {**_OF_70B, "vocab_size": 128256},
    "LLaMA 3.3 70B": {**_OF_70B, "vocab_size": 128256},
    "LLaMA 3.1 405B": {
        **_OF_70B, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
        "num_attention_heads": 128, "vocab_size": 128256,
    },
    "CodeLlama-34b-hf": {**_OF_70B, "intermediate_size": 22016, "num_hidden_layers": 48, "vocab_size": 32000},
    "Mistral 7B": {**_OF_8B, "kind": "mistral", "sliding_window": None, "vocab_size": 32000},
    "Qwen2.5-7B": _QWEN,
    "Qwen2.5-72B": {**_OF_70B, **_QWEN, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
                    "num_attention_heads": 64, "num_key_value_heads": 8},
    "Qwen1.5-7B": {**_OF_7B, "kind": "qwen2", "vocab_size": 151936},
    "Qwen3-8B": {**_OF_8B, "kind": "qwen3", "intermediate_size": 12288, "num_hidden_layers": 36, "head_dim": 128,
                 "vocab_size": 151936},
    "gpt-j-6b": {"kind": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "rotary_dim": 64, "vocab_size": 50400},
    "gpt-neox-20b": {"kind": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
                     "num_attention_heads": 64, "vocab_size": 50432},
    "phi-2": {"kind": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
              "num_attention_heads": 32, "vocab_size": 51200},
    "gpt2-xl": {"kind": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size": 50257},
    "gemma-7b": {"kind": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
                 "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256000},
    "starcoder2-3b": {"kind": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30,
                      "num_attention_heads": 24, "num_key_value_heads": 2, "sliding_window": None,
                      "vocab_size": 49152},
    "starcoder": {"kind": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_positions": 8192,
                  "multi_query": True, "vocab_size": 49152},
    "stablelm-2-12b": {"kind": "stablelm", "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40,
                       "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 100352},
    "codegen2-1B": {"kind": "codegen", "n_embd": 2048, "n_layer": 16, "n_head": 16, "rotary_dim": 32,
                    "vocab_size": 51200},
    "persimmon-8b-base": {"kind": "persimmon", "hidden_size": 4096, "intermediate_size": 16384,
                          "num_hidden_layers": 36, "num_attention_heads": 64, "vocab_size": 262144},
    "BLOOMZ 7B": {"kind": "bloom", "hidden_size": 4096, "n_layer": 30, "n_head": 32, "vocab_size": 250880},
    "gemma-2-9b": {"kind": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000},
    "xglm-1.7B": {"kind": "xglm", "d_model": 2048, "ffn_dim": 8192, "num_layers": 24, "attention_heads": 16,
                  "vocab_size": 256008},
    "mpt-30b": {"kind": "mpt", "d_model": 7168, "n_layers": 48, "n_heads": 64, "vocab_size": 50432},
    "falcon-40b": {"kind": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
                   "num_kv_heads": 8, "new_decoder_architecture": True, "vocab_size": 65024},
}  # fmt: skip
EAGER = frozenset({"bloom", "gemma2", "xglm", "mpt", "falcon"})
"""Kinds of models whose attention has no fused form in transformers."""
ENDING = frozenset({"Qwen2.5-7B", "Qwen2.5-72B", "Qwen3-8B"})
"""Models whose attention ends the program between scores and weights, see `_ending`."""


def configuration(name: str) -> Any:
    """Of a model, by its name."""
    given = dict(_MODELS[name])
    return AutoConfig.for_model(given.pop("kind"), **given)


def attention(name: str) -> str:
    """How a model attends, as `predict_generation` takes it."""
    if name in ENDING:
        use_habanas_attention()
        AttentionInterface.register("ending", _ending)
        AttentionMaskInterface.register("ending", AttentionMaskInterface()[FUSED])
        return "ending"
    return "eager" if _MODELS[name]["kind"] in EAGER else "fused"


def _ending(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    scaling: float, **_: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """softmax(scaling query key^T) value, as optimum-habana computes it for Qwen without `--use_flash_attention` since
    its release for transformers 4.49 (`gaudi_eager_attention_forward` of qwen2 and qwen3): scores are handed on in
    fp32, and `mark_step` ends the program behind them."""
    import habana_frameworks.torch.core as htcore

    batch, heads, rows, size = query.shape
    if rows > 1 and mask is None:
        key, value = key[:, :, :rows], value[:, :, :rows]
        mask = torch.ones(rows, rows, dtype=torch.bool, device=query.device).tril()
    side = (query * scaling).reshape(batch, key.shape[1], -1, size)
    scores = (side @ key.transpose(-2, -1)).float()
    htcore.mark_step()
    scores = scores.reshape(batch, heads, rows, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).to(query.dtype).reshape(batch, key.shape[1], -1, scores.shape[-1])
    return (weights @ value).reshape(batch, heads, rows, size).transpose(1, 2).contiguous(), None
