"""A mixture of experts: of each token, the weighted sum of what the experts that its router chose make of it.

An expert is w3(activation(w1 x) * w2 x); w12 is w1 and w2 in one, and `permuted_weights` says that each lies turned
over, as a Linear's weight does. All experts see all tokens here, weighted by 0 where the router did not choose them: so
a program has one shape, whatever is routed. Experts of other ranks, outside of experts_min to experts_max, add nothing.
chunk_size and total_experts say how a card cuts the work, recomp what it computes again for gradients: they change
nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from habana_tf.torch.hpu_ops.float8 import as_tensor, by_blocks, largest
from habana_tf.torch.hpu_ops.op import op
from habana_tf.torch.hpu_ops.packed4 import from_mxfp4

Tensors = Sequence[torch.Tensor]
Given = Mapping[str, Any]
"""Arguments of a call by their names."""
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}

_ROUTED = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights"
_PLAIN, _FUSED, _BIASED = ("w1", "w2", "w3"), ("w12", "w3"), ("w12", "w3", "w12_bias", "w3_bias")
_CHUNKS = "int chunk_size=0, int total_experts=0"
_RANGE = "int experts_min, int experts_max"


def _schema(name: str, weights: Sequence[str], more: str = "", last: str = "", results: str = "Tensor") -> str:
    """The schema of one form. more: arguments after the weights; last: before those of `_CHUNKS`."""
    lists = ", ".join(f"Tensor[] {each}" for each in weights)
    gate = "" if "w12_bias" in weights else "str activation, "
    again = "bool? recomp=True, " if name in ("", ".fused_weights") else ""
    limits = ", float alpha=1.702, float limit=7.0" if "w12_bias" in weights else ""
    how = f"bool permuted_weights, {gate}{_RANGE}{last}, *, {again}{_CHUNKS}{limits}"
    return f"mixture_of_experts{name}({_ROUTED}, {lists}{more}, {how}) -> {results}"


def _scales(weights: Sequence[str], number: str, middle: bool = True) -> str:
    """Scales of one type of hidden states, of an expert's middle, and of weights."""
    lists = f"{number}[]"
    own = ", ".join(f"{lists} d_scale_{each}" for each in weights if "bias" not in each)
    between = f", {lists}? d_scale_intermediate_hidden_states" if middle else ""
    return f", {number} d_scale_hidden_states{between}, {own}"


def _blocks(weights: Sequence[str]) -> str:
    own = ", ".join(f"Tensor[] d_scale_{each}" for each in weights if "bias" not in each)
    return f", {own}, int block_size"


_FP4 = ", bool is_fp4=True"
_MEASURED = ", bool measurement_mode"
_SCHEMAS = (
    _schema("", _PLAIN),
    _schema(".fused_weights", _FUSED),
    _schema(".bias_fused_weights", _BIASED),
    _schema(".fp8_measurement", _PLAIN, last=_MEASURED, results="(Tensor, Tensor)"),
    _schema(".fp8_measurement_fused_weights", _FUSED, last=_MEASURED, results="(Tensor, Tensor)"),
    _schema(
        ".measurement_bias_fused_weights", _BIASED, last=", bool measure_per_token", results="(Tensor, Tensor)"
    ),
    *(
        _schema(f".{name}{ending}", weights, _scales(weights, number))
        for name, weights in (("fp8", _PLAIN), ("fp8_fused_weights", _FUSED), ("bias_fp8_fused_weights", _BIASED))
        for ending, number in (("", "Tensor"), ("_scalars", "float"))
    ),
    *(
        _schema(f".{name}{ending}_dynamic", weights, _scales(weights, number, middle=False))
        for name, weights in (("fp8", _PLAIN), ("fp8_fused_weights", _FUSED))
        for ending, number in (("", "Tensor"), ("_scalars", "float"))
    ),
    _schema(".fp8_blockwise", _PLAIN, _blocks(_PLAIN)),
    _schema(".fp8_fused_weights_blockwise", _FUSED, _blocks(_FUSED)),
    _schema(".mxfp4", _PLAIN, _blocks(_PLAIN), _FP4),
    _schema(".mxfp4_fused_weights", _FUSED, _blocks(_FUSED), _FP4),
    _schema(".bias_mxfp4_fused_weights", _BIASED, _blocks(_BIASED), _FP4),
)  # fmt: skip


def mixture_of_experts(given: Given) -> Any:
    """hidden_states [tokens, size]; expert_routing_table and router_weights [tokens, chosen]. In the type of
    hidden_states, or bfloat16 of weights with scales. A form that measures adds, in float32, the largest size of what
    w3 multiplies: of each expert, or with measure_per_token of each expert and token, 0 for tokens it was not given.
    """
    x, table, router = (given[each] for each in ("hidden_states", "expert_routing_table", "router_weights"))
    first, count = given["experts_min"], given["experts_max"] - given["experts_min"] + 1
    _check(given, count)
    total, sizes = torch.zeros(x.shape, dtype=torch.float32, device=x.device), list[torch.Tensor]()
    product = _product_in_float8 if "d_scale_hidden_states" in given else _product
    for expert in range(count):
        chosen = table == expert + first
        share = torch.where(chosen, router, 0).sum(-1, keepdim=True)
        middle = _gated(given, *_halves(given, [product(given, x, expert, name) for name in _before(given)]))
        made = product(given, middle, expert, "w3")
        total = total + made.float() * share.float()
        sizes.append(torch.where(chosen.any(-1), middle.abs().amax(-1), 0).float())
    scaled = any(name.startswith("d_scale") for name in given)
    out = total.to(torch.bfloat16 if scaled else x.dtype)
    if "measure_per_token" in given or "measurement_mode" in given:
        measured = torch.stack(sizes)
        return out, measured if given.get("measure_per_token") else F.pad(measured, (0, 1)).amax(-1)
    return out


def _before(given: Given) -> Sequence[str]:
    """What multiplies hidden states."""
    return ("w12",) if "w12" in given else ("w1", "w2")


def _check(given: Given, count: int) -> None:
    name = given.get("activation", "silu")
    if name not in _ACTIVATIONS:
        raise RuntimeError(f"mixture_of_experts: activation is gelu, relu or silu, not {name!r}")
    lengths = {each: len(given[each]) for each in (*_PLAIN, *_BIASED) if each in given}
    if any(each != count for each in lengths.values()):
        first, last = given["experts_min"], given["experts_max"]
        raise RuntimeError(f"mixture_of_experts: experts {first} to {last} need {count} weights, not {lengths}")
    if "is_fp4" in given and not (given["is_fp4"] and given["permuted_weights"]):
        raise RuntimeError("mixture_of_experts: MXFP4 has is_fp4=True and permuted_weights=True")


def _halves(given: Given, made: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """What is activated, and what that multiplies. In forms with biases they alternate, as in GPT-OSS."""
    if "w12_bias" in given:
        return made[0][..., ::2], made[0][..., 1::2]
    gate, up = made[0].chunk(2, -1) if len(made) == 1 else made
    return gate, up


def _gated(given: Given, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    if "w12_bias" not in given:
        return _ACTIVATIONS[given["activation"]](gate) * up
    alpha, limit = given.get("alpha", 1.702), given.get("limit", 7.0)
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return (up + 1) * (gate * torch.sigmoid(gate * alpha))


def _product(given: Given, x: torch.Tensor, expert: int, name: str) -> torch.Tensor:
    """x times a weight, which is widened before if it has scales by blocks, plus its bias."""
    weight, block = given[name][expert], given.get("block_size")
    if block is not None:
        scale = given[f"d_scale_{name}"][expert]
        weight = (from_mxfp4 if "is_fp4" in given else _by_blocks)(weight, scale, block).to(x.dtype)
    made = x @ (weight.t() if given["permuted_weights"] else weight)
    return made + given[f"{name}_bias"][expert] if f"{name}_bias" in given else made


def _by_blocks(weight: torch.Tensor, scale: torch.Tensor, block: int) -> torch.Tensor:
    """A weight in 8 bits, of which each block of rows and columns has a scale, in the type of the scales."""
    rows, columns = weight.shape
    return weight.to(scale.dtype) * by_blocks(scale, block, block)[:rows, :columns]


def _product_in_float8(given: Given, x: torch.Tensor, expert: int, name: str) -> torch.Tensor:
    """The product in 8 bits, times both scales, in bfloat16. An expert's middle is divided by its scale and cast
    before; without one, by the scale of each token that makes its largest number the format's."""
    weight, dtype = given[name][expert], given["hidden_states"].dtype
    before = given["d_scale_hidden_states"]
    if name == "w3":
        of_middle = given.get("d_scale_intermediate_hidden_states")
        dynamic = (x.abs().amax(-1, keepdim=True).float() + 1e-8) / largest(dtype)
        before = dynamic if of_middle is None else as_tensor(of_middle[expert], x)
        x = torch.ops.hpu.cast_to_fp8_v2(x, before.reciprocal(), False, False, dtype)[0]
    scale, own = (as_tensor(each, x) for each in (before, given[f"d_scale_{name}"][expert]))
    scale = scale.unsqueeze(-1) if scale.dim() == 1 else scale  # a vector has one for each token
    bias = given[f"{name}_bias"][expert] if f"{name}_bias" in given else None
    weight = weight.t() if given["permuted_weights"] else weight
    made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(x, False, weight, False, None, torch.bfloat16, scale, own, bias)
    return made


def _by_name(schema: str) -> Callable[..., Any]:
    """`mixture_of_experts` as the formula of a schema, which gives arguments their names."""
    given = schema[schema.index("(") + 1 : schema.index(") ->")].split(", ")
    names = [each.split()[-1].partition("=")[0] for each in given]
    fixed = {"is_fp4": True} if "is_fp4" in names else {}

    def formula(*args: Any, **kwargs: Any) -> Any:
        return mixture_of_experts({**fixed, **dict(zip(names, args, strict=False)), **kwargs})

    return formula


for _each in _SCHEMAS:
    op(_each)(_by_name(_each))
