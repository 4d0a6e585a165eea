"""LARS: each parameter learns at a rate of its own, by how large it is beside its gradient. Habana has it in two parts,
an optimizer with momentum and what scales the gradients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from habana_tf.torch.hpex.one_program import ends_a_step, loss_of

__all__ = ["FusedLars", "FusedResourceApplyMomentum"]


class FusedResourceApplyMomentum(torch.optim.Optimizer):
    """Momentum that has the learning rate in it, so that a change of the rate does not reach back:

    m = momentum m + lr (g + decay p),  p = p - m
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.9, weight_decay: float = 0.0
    ) -> None:
        if lr < 0 or momentum < 0:
            raise ValueError(f"FusedResourceApplyMomentum takes lr and momentum of at least 0, not {lr}, {momentum}")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @ends_a_step
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step. Returns what `closure` gives, which is called first."""
        loss = loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            for p in params:
                if not self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            moments = [self.state[p]["momentum_buffer"] for p in params]
            grads = [p.grad for p in params]
            if group["weight_decay"]:
                grads = torch._foreach_add(grads, params, alpha=group["weight_decay"])
            torch._foreach_mul_(moments, group["momentum"])
            torch._foreach_add_(moments, grads, alpha=group["lr"])
            torch._foreach_sub_(params, moments)
        return loss


class FusedLars(torch.optim.Optimizer):
    """Scales gradients for another optimizer, which then makes the step without weight decay of its own:

        g = eeta |p| / (|g| + decay |p| + eps) (g + decay p)

    where skip_mask, in the order of the parameters, is true; g stays as it is elsewhere, without decay. A parameter or
    gradient of norm 0 is not scaled. Groups and state are those of the other optimizer.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, skip_mask: Sequence[bool], eeta: float = 0.001, eps: float = 1e-8
    ) -> None:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        if len(params) != len(skip_mask):
            raise ValueError(f"FusedLars needs one value of skip_mask a parameter: {len(skip_mask)} for {len(params)}")
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.optim, self.eeta, self.eps = optimizer, eeta, eps
        self.skip_mask = list(skip_mask)
        self._share()

    def _share(self) -> None:
        self.param_groups, self.state = self.optim.param_groups, self.optim.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the other optimizer's state."""
        self.optim.load_state_dict(state_dict)
        self._share()

    @ends_a_step
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the other optimizer. Returns what `closure` gives, which is called first."""
        loss = loss_of(closure)
        scaled = iter(self.skip_mask)
        decays = [group.get("weight_decay", 0.0) for group in self.param_groups]
        for group, decay in zip(self.param_groups, decays, strict=True):
            masks = [next(scaled) for _ in group["params"]]
            params = [p for p, mask in zip(group["params"], masks, strict=True) if mask and p.grad is not None]
            self._scale(params, decay)
        try:
            for group in self.param_groups:
                group["weight_decay"] = 0.0
            self.optim.step()
        finally:
            for group, decay in zip(self.param_groups, decays, strict=True):
                group["weight_decay"] = decay
        return loss

    def _scale(self, params: list[torch.Tensor], decay: float) -> None:
        """Scales the gradients of parameters."""
        if not params:
            return
        grads: list[torch.Tensor] = [p.grad for p in params if p.grad is not None]
        of_params, of_grads = torch._foreach_norm(params), torch._foreach_norm(grads)
        if decay:
            torch._foreach_add_(grads, params, alpha=decay)
        for g, of_p, of_g in zip(grads, of_params, of_grads, strict=True):
            ratio = self.eeta * of_p / (of_g + decay * of_p + self.eps)
            g.mul_(torch.where((of_p > 0) & (of_g > 0), ratio, 1.0))
