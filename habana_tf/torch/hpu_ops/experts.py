"""A mixture of experts: of each token, the weighted sum of what the experts that its router chose make of it.

An expert is w3(activation(w1 x) * w2 x); w12 is w1 and w2 in one, and `permuted_weights` says that each lies turned
over, as a Linear's weight does. All experts see all tokens here, weighted by 0 where the router did not choose them: so
a program has one shape, whatever is routed. Experts of other ranks, outside of experts_min to experts_max, add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from habana_tf.torch.hpu_ops.float8 import cast_to_fp8, largest
from habana_tf.torch.hpu_ops.op import op

Tensors = Sequence[torch.Tensor]
Numbers = Sequence[Any]
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}
_ROUTED = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights"
_PLAIN, _FUSED = "Tensor[] w1, Tensor[] w2, Tensor[] w3", "Tensor[] w12, Tensor[] w3"
_HOW = "bool permuted_weights, str activation, int experts_min, int experts_max"


@dataclass(frozen=True)
class Experts:
    """The experts of one call. product: multiplies x by a weight, given the number of the expert and the weight's name.
    hidden: makes of an expert's middle what w3 multiplies."""

    weights: dict[str, Tensors]
    permuted: bool
    activation: str
    first: int
    last: int
    product: Callable[[torch.Tensor, torch.Tensor, int, str], torch.Tensor]
    hidden: Callable[[torch.Tensor, int], torch.Tensor] = lambda x, expert: x

    def middle(self, x: torch.Tensor, expert: int) -> torch.Tensor:
        """activation(w1 x) * w2 x."""
        if "w12" in self.weights:
            gate, up = self._times(x, expert, "w12").chunk(2, -1)
        else:
            gate, up = (self._times(x, expert, name) for name in ("w1", "w2"))
        return _ACTIVATIONS[self.activation](gate) * up

    def _times(self, x: torch.Tensor, expert: int, name: str) -> torch.Tensor:
        weight = self.weights[name][expert]
        return self.product(x, weight.t() if self.permuted else weight, expert, name)

    def mixed(
        self, x: torch.Tensor, table: torch.Tensor, router: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum over the experts, and the largest size of each one's middle among its tokens."""
        if self.activation not in _ACTIVATIONS:
            raise RuntimeError(f"mixture_of_experts: activation is gelu, relu or silu, not {self.activation!r}")
        count = self.last - self.first + 1
        if any(len(each) != count for each in self.weights.values()):
            lengths = {name: len(each) for name, each in self.weights.items()}
            raise RuntimeError(
                f"mixture_of_experts: experts {self.first} to {self.last} need {count} weights, not {lengths}"
            )
        total, sizes = torch.zeros(x.shape, dtype=torch.float32, device=x.device), list[torch.Tensor]()
        for expert in range(count):
            chosen = table == expert + self.first
            share = torch.where(chosen, router, 0).sum(-1, keepdim=True)
            middle = self.middle(x, expert)
            sizes.append(torch.where(chosen.any(-1, keepdim=True), middle.abs(), 0).amax().float())
            made = self._times(self.hidden(middle, expert), expert, "w3")
            total = total + made.float() * share.float()
        return total.to(dtype), torch.stack(sizes)


def _plain(x: torch.Tensor, weight: torch.Tensor, expert: int, name: str) -> torch.Tensor:
    return x @ weight


@op(
    f"mixture_of_experts({_ROUTED}, {_PLAIN}, {_HOW}) -> Tensor",
    f"mixture_of_experts.fused_weights({_ROUTED}, {_FUSED}, {_HOW}) -> Tensor",
)
def mixture_of_experts(x: torch.Tensor, table: torch.Tensor, router: torch.Tensor, *rest: Any) -> torch.Tensor:
    """hidden_states [tokens, size]; expert_routing_table and router_weights [tokens, chosen]. In x's type."""
    *weights, permuted, activation, first, last = rest
    experts = Experts(_named(weights), permuted, activation, first, last, _plain)
    return experts.mixed(x, table, router, x.dtype)[0]


@op(
    f"mixture_of_experts.fp8_measurement({_ROUTED}, {_PLAIN}, {_HOW}, bool measurement_mode) -> (Tensor, Tensor)",
    f"mixture_of_experts.fp8_measurement_fused_weights({_ROUTED}, {_FUSED}, {_HOW}, bool measurement_mode) -> "
    "(Tensor, Tensor)",
)
def measured(
    x: torch.Tensor, table: torch.Tensor, router: torch.Tensor, *rest: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `mixture_of_experts`; and of each expert the largest size of what w3 multiplies, in float32."""
    *weights, permuted, activation, first, last, _ = rest
    experts = Experts(_named(weights), permuted, activation, first, last, _plain)
    return experts.mixed(x, table, router, x.dtype)


def _named(weights: Sequence[Tensors]) -> dict[str, Tensors]:
    return dict(zip(("w12", "w3") if len(weights) == 2 else ("w1", "w2", "w3"), weights, strict=True))


def _fp8(weights: str, scale: str, list_: str) -> str:
    """Arguments of a form in 8 bits, with scales of one type."""
    names = [each.split()[-1] for each in weights.split(", ")]
    scales = ", ".join(f"{list_} d_scale_{name}" for name in names)
    middle = f"{scale} d_scale_hidden_states, {list_}? d_scale_intermediate_hidden_states"
    return f"{_ROUTED}, {weights}, {middle}, {scales}, {_HOW}"


@op(
    f"mixture_of_experts.fp8({_fp8(_PLAIN, 'Tensor', 'Tensor[]')}) -> Tensor",
    f"mixture_of_experts.fp8_scalars({_fp8(_PLAIN, 'float', 'float[]')}) -> Tensor",
    f"mixture_of_experts.fp8_fused_weights({_fp8(_FUSED, 'Tensor', 'Tensor[]')}) -> Tensor",
    f"mixture_of_experts.fp8_fused_weights_scalars({_fp8(_FUSED, 'float', 'float[]')}) -> Tensor",
)
def in_float8(x: torch.Tensor, table: torch.Tensor, router: torch.Tensor, *rest: Any) -> torch.Tensor:
    """Of hidden states and weights in 8 bits, each times its d_scale, in bfloat16. An expert's middle is divided by its
    d_scale_intermediate_hidden_states before w3 multiplies it in 8 bits; without one, by the scale of each token that
    makes its largest number the format's."""
    count = 2 if len(rest) == 10 else 3
    weights, (of_x, of_middle), of_weights = rest[:count], rest[count : count + 2], rest[count + 2 : 2 * count + 2]
    permuted, activation, first, last = rest[2 * count + 2 :]
    named = _named(weights)
    scales: dict[str, Numbers] = dict(zip(named, of_weights, strict=True))
    dtype = x.dtype
    steps: dict[int, Any] = {}

    def product(a: torch.Tensor, weight: torch.Tensor, expert: int, name: str) -> torch.Tensor:
        before = steps[expert] if name == "w3" else of_x
        scale, own = (
            torch.as_tensor(each, dtype=torch.float32, device=a.device) for each in (before, scales[name][expert])
        )
        made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(a, False, weight, False, None, torch.bfloat16, scale, own)
        return made

    def hidden(middle: torch.Tensor, expert: int) -> torch.Tensor:
        if of_middle is None:
            steps[expert] = (middle.abs().amax(-1, keepdim=True).float() + 1e-8) / largest(dtype)
        else:
            steps[expert] = torch.as_tensor(of_middle[expert], dtype=torch.float32, device=x.device)
        return cast_to_fp8(middle, steps[expert].reciprocal(), False, False, dtype)[0]

    experts = Experts(named, permuted, activation, first, last, product, hidden)
    return experts.mixed(x, table, router, torch.bfloat16)[0]
