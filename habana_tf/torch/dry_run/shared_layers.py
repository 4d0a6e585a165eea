"""Linear layers of a model as one card of several has them, and in 8 bits: what deployment tools put in their places.

A configuration of `transformers` says by name how its layers are shared: by columns (each card makes a part of the
results), by rows (each card has a part of the inputs; the results are summed over all cards), or gathered. Tensors here
are a card's own, as in the model that a card runs, so that a model is as quick to record as without other cards.

Weights in 8 bits have no scale of their own, as after a calibration whose scales the matrix unit applies itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from habana_tf.torch.record import current

FLOAT8 = torch.float8_e4m3fn
COLUMNS = frozenset({"colwise", "packed_colwise", "colwise_gather_output", "colwise_rep"})
GATHERED = frozenset({"colwise_gather_output", "colwise_rep"})
ROWS = frozenset({"rowwise", "packed_rowwise", "rowwise_split_input"})
WHOLE = frozenset({"", "replicated_with_grad_allreduce", "moe_tp_experts"})


class CardLinear(nn.Module):
    """One card's part of a linear layer. style: of a plan, empty for all of it; float8: whether its weights and what it
    multiplies with them are float8_e4m3fn; asked: where it notes what it would exchange with other cards, by kind and
    bytes. Nothing is exchanged, but the program ends: with PT_HPU_ENABLE_LAZY_COLLECTIVES Habana's bridge launches a
    collective behind the recipe that makes its operand, and what reads the result begins another
    (`hpu_habana_cache.cpp`, `handle_collective` in `lazy_kernels.cpp`)."""

    def __init__(
        self, whole: nn.Linear, style: str, cards: int, float8: bool, asked: list[tuple[str, int]]
    ) -> None:  # fmt: skip
        super().__init__()
        self.style, self.cards, self.asked = style, cards, asked
        columns, rows = whole.weight.shape  # of the weights: results, inputs
        columns, rows = columns // (cards if style in COLUMNS else 1), rows // (cards if style in ROWS else 1)
        dtype = FLOAT8 if float8 else whole.weight.dtype
        weight = torch.empty(columns, rows, dtype=dtype, device=whole.weight.device)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = None if whole.bias is None else nn.Parameter(whole.bias[:columns].detach(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.style == "rowwise_split_input":
            x = x.chunk(self.cards, -1)[0]
        bias = None if self.style in ROWS and self.cards > 1 else self.bias
        y = self._product(x, bias)
        if self.cards == 1 or self.style not in ROWS | GATHERED:
            return y
        current.recorder().flush()
        if self.style in ROWS:
            self.asked.append(("all_reduce", y.nbytes))
            return y if self.bias is None else y + self.bias
        self.asked.append(("all_gather", y.nbytes * self.cards))
        return torch.cat([y] * self.cards, -1)

    def _product(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        if self.weight.dtype is not FLOAT8:
            return nn.functional.linear(x, self.weight, bias)
        narrow = in_float8(x.reshape(-1, x.shape[-1]))
        made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(
            narrow, False, self.weight, True, None, x.dtype, None, None, bias, False
        )
        return made.reshape(*x.shape[:-1], made.shape[-1])


def in_float8(x: torch.Tensor) -> torch.Tensor:
    """x in 8 bits."""
    made: torch.Tensor = torch.ops.hpu.cast_to_fp8_v2(x, None, False, False, FLOAT8)[0]
    return made


def share(model: Any, cards: int, float8: bool, asked: list[tuple[str, int]]) -> None:
    """Puts a card's part of it in the place of each linear layer; asked: see `CardLinear`. Raises ValueError for a
    configuration without a plan for several cards, one that shares other layers, and heads that cards do not divide."""
    plan = _plan(model, cards) if cards > 1 else {}
    for name, module in list(model.named_modules()):
        style = plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name), "")
        if isinstance(module, nn.Linear) and (style or float8):
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, CardLinear(module, style, cards, float8, asked))
        elif style not in WHOLE:
            raise ValueError(
                f"{type(module).__name__} {name} is shared as {style!r}, which is not known here: use tp=1"
            )


def _plan(model: Any, cards: int) -> dict[str, str]:
    """How layers are shared, by name, with * for numbers."""
    config = model.config.get_text_config()
    base = getattr(config, "base_model_tp_plan", None)
    if not base:
        raise ValueError(f"{type(config).__name__} has no plan of tensor parallelism: use tp=1")
    heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if any(n % cards for n in heads):
        raise ValueError(f"tp={cards} does not divide {heads[0]} heads, {heads[1]} of keys and values")
    prefix = f"{model.base_model_prefix}." if model.base_model is not model else ""
    plan = {prefix + name: style for name, style in base.items()}
    if not getattr(config, "tie_word_embeddings", False):
        plan.update(type(model)._tp_plan or {})
    unknown = {style for style in plan.values() if style not in COLUMNS | ROWS | WHOLE}
    if unknown:
        raise ValueError(f"{type(config).__name__} shares layers as {', '.join(sorted(unknown))}, "
                         "which is not known here: use tp=1")  # fmt: skip
    return plan


def read_by_parts(module: Any, shared: Callable[[torch.Tensor], Any]) -> None:
    """Has a module take its hidden values as `shared` gives them, so that gradients of all its layers that cards share
    (queries, keys and values) are summed over cards once."""

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (shared(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": shared(kwargs["hidden_states"])}

    module.register_forward_pre_hook(before, with_kwargs=True)
