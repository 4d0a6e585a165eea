"""PyTorch's own settings of its optimizers (OptimizerInfo), stepped on the device and on the CPU.

Per setting and form (a loop over parameters, `foreach`, `fused`): weights and state after some steps, and one step more
of new optimizers that have loaded the state of the device's or of the CPU's. Settings that PyTorch has for GPUs only
(`capturable`) are compared with the same without.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.testing._internal.common_optimizers import optim_db

from tests.effort import some
from tests.torch.opinfo import Outcome

OPTIMIZERS = {info.name: info for info in optim_db}
STEPS = 3

SKIPPED = {"SparseAdam": "sparse tensors are not on the device"}
"""By optimizer: why it is not compared."""
UNSTABLE = {"LBFGS Tensor lr": "its many small steps make rounding grow: the CPU itself is as far from float64"}
"""By optimizer and setting: why it is not compared."""


def run(name: str) -> Outcome:
    """Runs settings of an optimizer in all of its forms: all settings, or one in the quick tests."""
    info, outcome = OPTIMIZERS[name], Outcome(ops=1)
    every = info.optim_inputs_func("cuda")  # the name of a device that has all of them
    for setting in some([s for s in every if f"{name} {s.desc}" not in UNSTABLE], len(every)):
        for form in ("loop", *(f for f in info.supported_impls if f != "differentiable")):
            kwargs = dict(setting.kwargs)
            if "foreach" in info.supported_impls:
                kwargs["foreach"] = form == "foreach"
            if form == "fused":
                kwargs["fused"] = True
            try:
                why = _compare(outcome, form, info.optim_cls, kwargs)
            except Exception as error:  # of any kind: the others shall run, too
                why = f"{type(error).__name__}: {str(error)[:300]}"
            if why:
                outcome.failures.append(f"{name} {form} {setting.desc or setting.kwargs}: {why}")
    return outcome


def _compare(outcome: Outcome, form: str, make: Any, kwargs: dict[str, Any]) -> str:
    other = {k: v for k, v in kwargs.items() if k != "capturable"}
    theirs = _weights("cpu", make)
    try:
        reference = _stepped(make, theirs, other)
    except Exception:  # of any kind: the device may take what the CPU does not, and the loop is as good
        try:
            theirs = _weights("cpu", make)
            reference = _stepped(make, theirs, {k: v for k, v in other.items() if k not in ("foreach", "fused")})
        except Exception:  # of any kind: there is nothing to compare with
            outcome.refused += 1
            return ""
    ours = _weights("hpu", make)
    optimizer = _stepped(make, ours, kwargs)
    outcome.ran[form] += 1
    if why := _unlike(ours, theirs) or _unlike(_state(optimizer), _state(reference)):
        return why
    loaded = [p.detach().clone().requires_grad_() for p in ours], [p.detach().clone().requires_grad_() for p in ours]
    states = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(reference.state_dict())
    _step(reference, theirs)
    for weights, state in zip(loaded, states, strict=True):
        again = make(weights, **kwargs)
        groups = again.state_dict()["param_groups"]
        again.load_state_dict({"state": state["state"], "param_groups": groups})
        _step(again, weights)
        if why := _unlike(weights, theirs):
            return f"after a state was loaded, {why}"
    return ""


def _weights(device: str, make: Any) -> list[torch.Tensor]:
    shapes = ((4, 5), (3, 2)) if make is torch.optim.Muon else ((4, 5), (5,), (3, 2, 2))
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes]


def _stepped(make: Any, weights: list[torch.Tensor], kwargs: dict[str, Any]) -> Any:
    optimizer = make(weights, **copy.deepcopy(kwargs))
    for _ in range(STEPS):
        _step(optimizer, weights)
    return optimizer


def _step(optimizer: Any, weights: list[torch.Tensor]) -> None:
    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = sum(((w.sin() + w) ** 2).sum() for w in weights)
        assert isinstance(value, torch.Tensor)
        value.backward()
        return value

    optimizer.step(loss)


def _state(optimizer: Any) -> list[torch.Tensor]:
    found = optimizer.state_dict()["state"]
    return [v for k in sorted(found) for _, v in sorted(found[k].items()) if isinstance(v, torch.Tensor)]


def _unlike(got: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    """Why tensors are not the CPU's; empty where they are."""
    if len(got) != len(want):
        return f"{len(got)} tensors of state, not {len(want)}"
    for ours, theirs in zip(got, want, strict=True):
        if ours.dtype is not theirs.dtype or ours.shape != theirs.shape:
            return f"{ours.dtype} {list(ours.shape)}, not {theirs.dtype} {list(theirs.shape)}"
        if not torch.allclose(ours.detach().cpu(), theirs.detach(), 1e-4, 1e-5):
            return f"{(ours.detach().cpu() - theirs.detach()).abs().max()} away"
    return ""
