"""Habana's fused optimizers: a step over all parameters is one program.

They are formulas over lists of tensors; learning rates and corrections are numbers that the program reads, so that a
schedule compiles nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from habana_tf.torch.hpex.one_program import ends_a_step, loss_of

__all__ = ["Adam", "AdamW", "FusedAdagrad", "FusedAdamW", "FusedLamb", "FusedSGD"]

Moments = Any
"""A type, one for each moment, or None for the parameters' own."""


class Adam(torch.optim.Adam):
    """torch.optim.Adam whose step is one program."""

    step = ends_a_step(torch.optim.Adam.step)


class AdamW(torch.optim.AdamW):
    """torch.optim.AdamW whose step is one program."""

    step = ends_a_step(torch.optim.AdamW.step)


class FusedSGD(torch.optim.SGD):
    """torch.optim.SGD whose step is one program."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, weight_decay: float = 0,
        dampening: float = 0, nesterov: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, foreach=True)

    step = ends_a_step(torch.optim.SGD.step)


class FusedAdagrad(torch.optim.Adagrad):
    """torch.optim.Adagrad whose step is one program."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, lr_decay, weight_decay, initial_accumulator_value, eps, foreach=True)

    step = ends_a_step(torch.optim.Adagrad.step)


class _Fused(torch.optim.Optimizer):
    """An optimizer with two moments a parameter and a number of steps a group."""

    moments: Moments = None

    def _step(self, closure: Callable[[], Any] | None) -> Any:
        """What the closure gives. Raises RuntimeError for sparse gradients."""
        loss = loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.grad.is_sparse:
                    raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
        return loss

    def _types(self, p: torch.Tensor) -> dict[str, torch.dtype]:
        """The types of a parameter's moments."""
        types = self.moments if isinstance(self.moments, tuple) else (self.moments, self.moments)
        return {name: kind or p.dtype for name, kind in zip(("exp_avg", "exp_avg_sq"), types, strict=True)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As of any optimizer, but moments stay in their types, and are not rounded to the parameters'."""
        super().load_state_dict(state_dict)
        numbers = (k for group in state_dict["param_groups"] for k in group["params"])
        for p, k in zip((p for group in self.param_groups for p in group["params"]), numbers, strict=True):
            for name, kind in self._types(p).items():
                if name in (saved := state_dict["state"].get(k, {})):
                    self.state[p][name] = saved[name].to(device=p.device, dtype=kind, copy=True)

    def _lists(self, group: dict[str, Any]) -> tuple[list[torch.Tensor], ...]:
        """Parameters that have gradients, these, and both moments."""
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if not self.state[p]:
                for name, kind in self._types(p).items():
                    self.state[p][name] = torch.zeros_like(p, dtype=kind)
        firsts = [self.state[p]["exp_avg"] for p in params]
        return params, [p.grad for p in params], firsts, [self.state[p]["exp_avg_sq"] for p in params]


class FusedAdamW(_Fused):
    """Adam with decoupled weight decay:

        m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
        p = p (1 - lr decay) - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)

    Unlike torch.optim.AdamW's, its eps is not divided by the correction. moments_dtype: type of m and v, or of each.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
        weight_decay: float = 0.0, bias_correction: bool = True, moments_dtype: Moments = None,
    ) -> None:  # fmt: skip
        if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"FusedAdamW takes lr and eps of at least 0 and betas in [0, 1), not {lr}, {eps}, {betas}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                    "bias_correction": bias_correction}  # fmt: skip
        super().__init__(params, defaults)
        self.moments = moments_dtype

    @ends_a_step
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step. Returns what `closure` gives, which is called first."""
        loss = self._step(closure)
        for group in self.param_groups:
            params, grads, firsts, seconds = self._lists(group)
            if not params:
                continue
            group["step"] = group.get("step", 0) + 1
            (beta1, beta2), size = group["betas"], group["lr"]
            if group.get("bias_correction", True):
                size *= math.sqrt(1 - beta2 ** group["step"]) / (1 - beta1 ** group["step"])
            _moved(firsts, seconds, grads, beta1, beta2, 1 - beta1)
            if group["weight_decay"]:
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            denominators = torch._foreach_add(torch._foreach_sqrt(_like(seconds, params)), group["eps"])
            torch._foreach_addcdiv_(params, _like(firsts, params), denominators, -size)
        return loss


class FusedLamb(_Fused):
    """LAMB: Adam's update u of each parameter is scaled by the ratio of both norms.

        g = g / max(1, |all g| / max_grad_norm),  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
        u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay p,  p = p - lr |p| / |u| u

    grad_averaging: whether g is weighted by 1 - b1 in m. adam_w_mode: else decay p is added to g. use_lamb: whether
    parameters without decay are scaled, too. max_grad_norm: None clips nothing. set_grad_none: whether `zero_grad`
    removes gradients. dtype: in which gradients are added up for their norm; None for their own. fused changes nothing.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.01, amsgrad: bool = False,
        adam_w_mode: bool = True, grad_averaging: bool = True, set_grad_none: bool = True,
        max_grad_norm: float | None = 1.0, use_lamb: bool = False, fused: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        if amsgrad:
            raise RuntimeError("FusedLamb does not support the AMSGrad variant.")
        defaults = {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps,
                    "weight_decay": weight_decay, "grad_averaging": grad_averaging,
                    "max_grad_norm": max_grad_norm}  # fmt: skip
        super().__init__(params, defaults)
        self.adam_w_mode, self.set_grad_none, self.use_lamb, self.dtype = adam_w_mode, set_grad_none, use_lamb, dtype

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Removes gradients, or sets them to zero."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    @ends_a_step
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step. Returns what `closure` gives, which is called first."""
        loss = self._step(closure)
        lists = [self._lists(group) for group in self.param_groups]
        clip = self._clip([g for _, grads, _, _ in lists for g in grads])
        for group, (params, grads, firsts, seconds) in zip(self.param_groups, lists, strict=True):
            if not params:
                continue
            group["step"] = group.get("step", 0) + 1
            beta1, beta2 = group["betas"]
            decay = group["weight_decay"]
            if clip is not None:
                grads = torch._foreach_mul(grads, clip)
            if decay and not self.adam_w_mode:
                grads = torch._foreach_add(grads, params, alpha=decay)
            _moved(firsts, seconds, grads, beta1, beta2, 1 - beta1 if group["grad_averaging"] else 1.0)
            first, second = 1.0, 1.0
            if group["bias_correction"]:
                first, second = 1 - beta1 ** group["step"], 1 - beta2 ** group["step"]
            roots = torch._foreach_sqrt(torch._foreach_mul(seconds, 1 / second))
            updates = torch._foreach_div(torch._foreach_mul(firsts, 1 / first), torch._foreach_add(roots, group["eps"]))
            if decay and self.adam_w_mode:
                torch._foreach_add_(updates, params, alpha=decay)
            if decay or self.use_lamb:
                for u, p in zip(updates, params, strict=True):
                    of_p, of_u = p.norm(), u.norm()
                    u.mul_(torch.where((of_p > 0) & (of_u > 0), of_p / of_u, 1.0))
            torch._foreach_add_(params, updates, alpha=-group["lr"])
        return loss

    def _clip(self, grads: list[torch.Tensor]) -> torch.Tensor | None:
        """What gradients are multiplied with, so that together they have no larger norm than is allowed."""
        most = self.defaults["max_grad_norm"]
        if most is None or not grads:
            return None
        norms = torch._foreach_norm([g if self.dtype is None else g.to(self.dtype) for g in grads])
        return (most / torch.stack(norms).norm()).clamp(max=1.0)


def _moved(
    firsts: list[torch.Tensor], seconds: list[torch.Tensor], grads: list[torch.Tensor], beta1: float, beta2: float,
    share: float,
) -> None:  # fmt: skip
    """Moves both moments towards a step's gradients. share: of a gradient in the first one."""
    torch._foreach_mul_(firsts, beta1)
    torch._foreach_add_(firsts, grads, alpha=share)
    torch._foreach_mul_(seconds, beta2)
    torch._foreach_addcmul_(seconds, _like(grads, seconds), _like(grads, seconds), 1 - beta2)


def _like(tensors: list[torch.Tensor], others: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors in the types of others."""
    return [t if t.dtype is o.dtype else t.to(o.dtype) for t, o in zip(tensors, others, strict=True)]
