"""Language models of published rows: configurations, and what their scripts put into them before they are trained
(attention, adapters of low rank, a head that classifies), as `torch.dry_run.language_step` takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F

from habana_tf.torch.dry_run.generation import FUSED

_LLAMA = {
    "kind": "Llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "tie_word_embeddings": False,
}  # fmt: skip
_13B = {**_LLAMA, "hidden_size": 5120, "intermediate_size": 13824, "layers": 40, "num_attention_heads": 40,
        "num_key_value_heads": 40}  # fmt: skip
_70B = {**_LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8}  # fmt: skip
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "LLaMA 7B": _LLAMA,
    "LLaMA 2 7B": _LLAMA,
    "LLaMA 2 13B": _13B,
    "CodeLlama 13B": {**_13B, "vocab_size": 32016},
    "LLaMA 2 70B": _70B,
    "LLaMA 3.1 8B": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 128256},
    "LLaMA 3.1 70B": {**_70B, "vocab_size": 128256},
    "Gemma 2B": {"kind": "Gemma", "vocab_size": 256000, "hidden_size": 2048, "intermediate_size": 16384, "layers": 18,
                 "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256},
    "Qwen2 7B": {"kind": "Qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "layers": 28,
                 "num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False},
    "Qwen3 8B": {"kind": "Qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "layers": 36,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False},
    "GPT-NeoX 20B": {"kind": "GPTNeoX", "vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576,
                     "layers": 44, "num_attention_heads": 64, "tie_word_embeddings": False},
    "GPT2-XL 1.5B": {"kind": "GPT2", "vocab_size": 50257, "hidden_size": 1600, "num_attention_heads": 25, "layers": 48},
    "Falcon 40B": {"kind": "Falcon", "vocab_size": 65024, "hidden_size": 8192, "num_attention_heads": 128,
                   "num_kv_heads": 8, "new_decoder_architecture": True, "layers": 60, "bias": False},
    "GPT-3 175B": {"kind": "Starcoder2", "vocab_size": 51200, "hidden_size": 12288, "intermediate_size": 49152,
                   "layers": 96, "num_attention_heads": 96, "num_key_value_heads": 96, "head_dim": 128,
                   "tie_word_embeddings": False},
}  # fmt: skip
"""By name of the model: the class in transformers, its layers, and its configuration. GPT-3 is told as a Starcoder 2 of
its sizes, which has rotary embeddings in the place of learned ones."""


@dataclass(frozen=True)
class Asked:
    """What is trained. attention: "fused", "kept", or one of transformers'. trained: "all", or the rank of adapters and
    the layers that have them: "8 q_proj v_proj". classifies: a class, not words."""

    model: str
    length: int
    attention: str = "fused"
    trained: str = "all"
    classifies: bool = False

    @property
    def config(self) -> Any:
        given = dict(CONFIGURATIONS[self.model])
        kind, layers = given.pop("kind"), given.pop("layers")
        return getattr(transformers, f"{kind}Config")(**given, num_hidden_layers=layers, pad_token_id=0)

    def made(self, config: Any, dtype: torch.dtype) -> Any:
        """The model of this configuration, with those weights to be trained that are."""
        kind: Any = transformers.AutoModelForCausalLM
        if self.classifies:
            kind = transformers.AutoModelForSequenceClassification
        name = FUSED if self.attention == "fused" else self.attention
        model = kind.from_config(config, dtype=dtype, attn_implementation=name)
        rank, *adapted = self.trained.split()
        if adapted:
            model.requires_grad_(False)
        for owner in list(model.modules()):
            for name, child in list(owner.named_children()):
                if name in adapted:
                    setattr(owner, name, _Adapted(child, int(rank)))
        return model


class _Adapted(nn.Module):
    """A layer that is not trained, with an adapter of low rank that is."""

    def __init__(self, base: Any, rank: int) -> None:
        super().__init__()
        self.base = base
        outputs, inputs = base.weight.shape
        self.down = nn.Parameter(torch.empty(rank, inputs, device="meta"))
        self.up = nn.Parameter(torch.empty(outputs, rank, device="meta"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added = F.linear(F.linear(x, self.down.to(x.dtype)), self.up.to(x.dtype))
        return self.base(x) + added


def _kept(owner: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float | None = None, **_: Any) -> tuple[Any, None]:
    """Attention op by op, softmax in bf16."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = (x[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (scaling or q.shape[-1] ** -0.5)
    later = torch.full(scores.shape[-2:], float("-inf"), dtype=q.dtype, device=q.device).triu(1)
    return (torch.softmax(scores + later, -1) @ v).transpose(1, 2).contiguous(), None


transformers.AttentionInterface.register("kept", _kept)
transformers.AttentionMaskInterface.register("kept", lambda *_, **__: None)
