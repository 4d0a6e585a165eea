"""PyTorch's own samples of its modules (ModuleInfo), run on the device and on the CPU with the same weights.

Per sample, in training and in evaluation: the result, gradients of inputs and parameters, buffers afterwards. A moved
module has the parameters that it had, and its state goes to the CPU and back unchanged.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

from tests.effort import THOROUGH
from tests.torch.opinfo import Made, Outcome, tensors, to, unlike, widened, with_gradients

MODULES = {info.name: info for info in module_db}
MOST = 6 if THOROUGH else 2
"""Samples of a module in either way, evenly from all."""

_SAMPLES = "the samples are of float64, which the CPU does not take either"
SKIPPED = dict.fromkeys(("nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"), _SAMPLES)
"""By module: why it is not compared."""


def some(part: int, parts: int) -> Outcome:
    """Runs one of `parts` parts of all modules."""
    total = Outcome()
    for name in sorted(MODULES)[part::parts]:
        if name not in SKIPPED:
            total.add(run(name))
    return total


def run(name: str) -> Outcome:
    """Runs samples of a module."""
    outcome = Outcome(ops=1)
    warnings.simplefilter("ignore")
    for training in True, False:
        for k, sample in _samples(name, training):
            try:
                why = _compare(outcome, name, sample, training)
            except Exception as error:  # of any kind: the others shall run, too
                why = f"{type(error).__name__}: {str(error)[:300]}"
            if why:
                outcome.failures.append(f"{name} {k} {sample.desc or ''} {training=}: {why}")
    return outcome


def _samples(name: str, training: bool) -> Iterator[tuple[int, Any]]:
    info = MODULES[name]
    torch.manual_seed(0)
    found = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    yield from list(enumerate(found))[:: -(-len(found) // MOST)]


def _compare(outcome: Outcome, name: str, sample: Any, training: bool) -> str:
    given = sample.forward_input.args, sample.forward_input.kwargs
    built = sample.constructor_input
    module = MODULES[name].module_cls(*built.args, **built.kwargs).train(training)
    if MODULES[name].is_lazy:
        with torch.no_grad():
            copy.deepcopy(module)  # as it is before its first call, which makes the parameters
            module(*given[0], **given[1])
    try:
        want = _called(copy.deepcopy(module), "cpu", given)
    except Exception:  # of any kind: there is nothing to compare with
        outcome.refused += 1
        return ""
    exact = _called(copy.deepcopy(module).double(), "cpu", widened(given))
    moved = copy.deepcopy(module)
    before = list(moved.parameters())
    moved.to("hpu")
    if [id(p) for p in moved.parameters()] != [id(p) for p in before]:
        return "the moved module has other parameters"
    outcome.ran["training" if training else "evaluation"] += 1
    outcome.ran["gradients"] += bool(want[1])
    return unlike(_called(moved, "hpu", given), want, exact) or _state(moved, module)


def _called(module: Any, device: str, given: Any) -> Made:
    """Results and then buffers, and gradients of inputs and parameters, on the CPU."""
    args, kwargs = to(given, device)

    def call(args: Any, parameters: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    results, gradients = with_gradients(call, (args, list(module.parameters())), kwargs)
    made = [*results, *module.buffers()], gradients
    elsewhere = {t.device.type for part in made for t in part} - {device}
    assert not elsewhere, f"a result is on {elsewhere}, not on {device}"
    return [t.cpu() for t in made[0]], [t.cpu() for t in made[1]]


def _state(moved: Any, module: Any) -> str:
    """Why the state changed on its way from the device to a module on the CPU, and to another on the device."""
    state = moved.state_dict()
    there, again = copy.deepcopy(module), copy.deepcopy(moved)
    there.load_state_dict(state)
    with torch.no_grad():
        for t in again.state_dict().values():
            t.zero_()
    again.load_state_dict(there.state_dict())
    for kept, other, one in zip(*(tensors(m.state_dict()) for m in (moved, there, again)), strict=True):
        if one.device.type != "hpu" or other.device.type != "cpu":
            return "a state on another device"
        if not (torch.equal(kept.cpu(), other) and torch.equal(kept.cpu(), one.cpu())):
            return "the state changed on its way to the CPU and back"
    return ""
