"""Mixtures of experts of `transformers`, as `mixture_of_experts` has them on a card: an expert multiplies the tokens
that a router gave it, and experts without tokens are not read.

Which those are is up to values, which a recording has none of. So all experts are taken for equally likely: each of T
tokens goes to k of E experts, and of these

    E (1 - (1 - k / E) ** T)

have a token on average, k for one token and about E for many. So many experts, rounded, are read, and the T k rows are
spread over them evenly.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from habana_tf.torch.dry_run.shared_layers import FLOAT8, in_float8
from habana_tf.torch.record import current


def experts_read(experts: int, of_token: int, tokens: int) -> int:
    """How many experts have a token, on average where all are equally likely."""
    return max(of_token, round(experts * (1 - (1 - of_token / experts) ** tokens)))


class CardExperts(nn.Module):
    """One card's part of the experts of a layer: `cards` of them share each expert's middle. float8, asked: as of
    `shared_layers.CardLinear`. Raises ValueError for experts of another form than Mixtral's and Qwen3's."""

    def __init__(self, whole: Any, cards: int, float8: bool, asked: list[tuple[str, int]]) -> None:
        super().__init__()
        if whole.has_bias or whole.is_transposed or not whole.has_gate or whole.has_post_expert_norm:
            raise ValueError(
                f"{type(whole).__name__} is not predicted: only experts of a gate, a product before and one behind it, "
                "without biases, as in Mixtral and Qwen3-MoE"
            )
        experts, width, middle = whole.down_proj.shape
        if middle % cards:
            raise ValueError(f"tp={cards} does not divide the {middle} values in the middle of an expert")
        like = {"dtype": FLOAT8 if float8 else whole.down_proj.dtype, "device": whole.down_proj.device}
        self.gate_up_proj = nn.Parameter(torch.empty(experts, 2 * middle // cards, width, **like), requires_grad=False)
        self.down_proj = nn.Parameter(torch.empty(experts, width, middle // cards, **like), requires_grad=False)
        self.act_fn, self.cards, self.asked = whole.act_fn, cards, asked

    def forward(self, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """x: [tokens, width]; chosen, weights: [tokens, experts of a token]. What is computed has the right sizes and
        no meaning: rows are fetched by what is at hand."""
        tokens, of_token = chosen.shape
        read = experts_read(len(self.down_proj), of_token, tokens)
        rows = -(-tokens * of_token // read)
        places = F.pad(chosen.reshape(-1), (0, read * rows - tokens * of_token))
        gate, up = self._product(x[places].reshape(read, rows, -1), self.gate_up_proj[:read]).chunk(2, -1)
        made = self._product(self.act_fn(gate) * up, self.down_proj[:read]).reshape(read * rows, -1)
        made = (made[chosen] * weights[..., None].to(made.dtype)).sum(1)
        if self.cards > 1:
            current.recorder().flush()
            self.asked.append(("all_reduce", made.nbytes))
        return made

    def _product(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        if weights.dtype is not FLOAT8:
            return x @ weights.mT
        made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(
            in_float8(x), False, weights, True, None, x.dtype, None, None, None, False
        )
        return made


def is_experts(module: nn.Module) -> bool:
    """Whether a module of transformers is all experts of a layer: of those, `batched_mm` is one implementation."""
    return hasattr(module, "_apply_gate") and hasattr(module, "is_transposed")
