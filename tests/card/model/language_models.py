"""Language models as their training on cards computes them, traced for one micro-batch of one card.

Modules are those of transformers, made on `meta` from the published configurations, with what Habana's scripts put in
their place: its fused RMS norm, its fused attention (or, as `kept`, a softmax in bf16 whose weights wait for the
gradients), linear layers in fp8 as its transformer engine computes them, adapters of low rank. Under tensor parallelism
a card has its share of heads, of the widths within a layer, and of the words.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import habana_tf
from habana_tf.card.model.lowered import Lowered

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
    """A micro-batch of a card. tensor: cards that share each layer. attention: "fused", "kept", or one of
    transformers'. trained: "all", or the rank of adapters and the layers that have them: "8 q_proj v_proj".
    recompute: whether layers are computed again for their gradients. classifies: a class, not words."""

    model: str
    batch: int
    length: int
    tensor: int = 1
    fp8: bool = False
    attention: str = "fused"
    trained: str = "all"
    recompute: bool = False
    classifies: bool = False


@dataclass(frozen=True)
class Traced:
    """What a micro-batch launches; parameters that a card holds, and those of them that are trained."""

    launched: tuple[Lowered, ...]
    held: int
    trained: int


@functools.cache
def traced(asked: Asked, layers: int) -> Traced:
    """Forward and backward pass of a model of so many layers."""
    made = module(asked, layers)
    words = torch.empty(asked.batch, asked.length, dtype=torch.int64, device="meta")
    labels = words[:, 0] if asked.classifies else words
    mask = torch.empty(1, 1, 1, 1, dtype=torch.bfloat16, device="meta")  # given, so that transformers makes none
    found = habana_tf.predict(
        made, {"input_ids": words, "attention_mask": mask, "labels": labels}, loss=lambda out: out.loss,
        chip="gaudi2", precision="fp32",
    )  # fmt: skip
    sizes = [(p.numel(), p.requires_grad) for p in made.parameters()]
    return Traced(tuple(found.launched), sum(n for n, _ in sizes), sum(n for n, trained in sizes if trained))


def module(asked: Asked, layers: int) -> nn.Module:
    """A card's share of the model, on `meta`, in bf16."""
    given = {k: v for k, v in CONFIGURATIONS[asked.model].items() if k not in ("kind", "layers")}
    kind = CONFIGURATIONS[asked.model]["kind"]
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size"):
        if name in given:
            given[name] = max(1, given[name] // asked.tensor)
    config = getattr(transformers, f"{kind}Config")(
        **given, num_hidden_layers=layers, attn_implementation=asked.attention, use_cache=False, pad_token_id=0,
    )  # fmt: skip
    head = "ForSequenceClassification" if asked.classifies else "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    with torch.device("meta"):
        made: Any = getattr(transformers, kind + head)(config).to(torch.bfloat16)
    rank, *adapted = asked.trained.split()
    for owner in list(made.modules()):
        for name, child in list(owner.named_children()):
            new = child
            if type(child).__name__.endswith("RMSNorm") and kind != "Gemma":
                new = _Norm(child)
            elif type(child) is nn.Linear and asked.fp8 and name != "lm_head":
                new = _Float8Linear(child)
            if name in adapted:
                new = _Adapted(new, int(rank))
            if new is not child:
                setattr(owner, name, new)
    if adapted:
        for name, p in made.named_parameters():
            p.requires_grad = name.endswith((".down", ".up"))
    if asked.recompute:
        made.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return made.train()


class _Norm(nn.Module):
    def __init__(self, old: Any) -> None:
        super().__init__()
        self.weight, self.eps = old.weight, old.variance_epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from habana_frameworks.torch.hpex.normalization import FusedRMSNorm

        return FusedRMSNorm.apply(x, self.weight, self.eps)


class _Float8Product(torch.autograd.Function):
    """x w^T in E4M3, its gradients with E5M2; the weight in fp8 is held across micro-batches."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
        cast, _ = torch.ops.hpu.cast_to_fp8_v2(x, None, False, False, torch.float8_e4m3fn)
        ctx.save_for_backward(cast, small)
        return _product(cast, False, small, True)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        cast, _ = torch.ops.hpu.cast_to_fp8_v2(grad.contiguous(), None, False, False, torch.float8_e5m2)
        of_weight = None
        if ctx.needs_input_grad[1]:
            of_weight = _product(cast.flatten(0, -2), True, x.flatten(0, -2), False)
        return _product(cast, False, weight, False), of_weight, None


def _product(a: torch.Tensor, turned: bool, b: torch.Tensor, other: bool) -> torch.Tensor:
    made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(a, turned, b, other, None, torch.bfloat16, None, None, None)
    return made


class _Float8Linear(nn.Module):
    def __init__(self, old: nn.Linear) -> None:
        super().__init__()
        self.weight = old.weight
        self.register_buffer("small", torch.empty(old.weight.shape, dtype=torch.float8_e4m3fn, device="meta"))

    def forward(self, x: torch.Tensor) -> Any:
        return _Float8Product.apply(x, self.weight, self.small)


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


def _fused(owner: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float | None = None, **_: Any) -> tuple[Any, None]:
    """Habana's fused attention, which computes its weights again for the gradients."""
    from habana_frameworks.torch.hpex.kernels import FusedSDPA

    return FusedSDPA.apply(q, k, v, None, 0.0, True, scaling, "fast", True).transpose(1, 2).contiguous(), None


def _kept(owner: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float | None = None, **_: Any) -> tuple[Any, None]:
    """Attention op by op, softmax in bf16."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = (x[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (scaling or q.shape[-1] ** -0.5)
    later = torch.full(scores.shape[-2:], float("-inf"), dtype=q.dtype, device=q.device).triu(1)
    return (torch.softmax(scores + later, -1) @ v).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS["fused"] = _fused
ALL_ATTENTION_FUNCTIONS["kept"] = _kept
