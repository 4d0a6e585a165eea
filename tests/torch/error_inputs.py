"""PyTorch's own wrong calls of its ops (`OpInfo.error_inputs_func`), made on the device and on the CPU.

A call is right where it raises what it raises on the CPU: an exception of the same type, in the call or, where only
values tell, when the program runs. The words may name other devices and types. The device's own list has calls that the
CPU's has not, with tensors of several devices: these raise what PyTorch says there, or, since operands of the host are
taken, give what they give where all are on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_leaves, tree_map

OPS = {f"{op.name} {op.variant_test_name}".strip(): op for op in op_db if op.error_inputs_func is not None}

SKIPPED = {"narrow_copy": "the CPU's words for an axis that is not there ask to be reported; it is an IndexError here"}
"""By op: why its wrong calls may raise another type."""


@dataclass
class Outcome:
    """Of some calls. ran: how many were compared. failures: what was wrong."""

    ran: int = 0
    failures: list[str] = field(default_factory=list)


def raised(call: Callable[[], Any]) -> Exception | None:
    """What a call raises, or the host when it reads what the call makes."""
    try:
        for t in tree_leaves(call()):
            if isinstance(t, torch.Tensor) and t.device.type == "hpu":
                t.cpu()
        return None
    except Exception as why:
        return why


def moved(value: Any, device: str = "hpu") -> Any:
    """The same structure on the device. Tensors that share a storage share one there, with their strides."""
    storages: dict[int, torch.Tensor] = {}
    empty: dict[torch.Tensor, torch.Tensor] = {}

    def move(x: Any) -> Any:
        if isinstance(x, torch.device) or x == "cpu" and isinstance(x, str):
            return torch.device(device)
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
            return x
        with torch.no_grad():
            storage = x.untyped_storage()
            if x.device.type != "cpu":
                return x
            if not storage.nbytes():
                if x not in empty:
                    empty[x] = x.detach().to(device).requires_grad_(x.requires_grad)
                return empty[x]
            key = storage.data_ptr()
            if key not in storages:
                storages[key] = torch.empty(0, dtype=x.dtype).set_(storage).to(device)
            made = storages[key]
            made = made if made.dtype is x.dtype else made.view(x.dtype)
            return made.as_strided(x.shape, x.stride(), x.storage_offset()).requires_grad_(x.requires_grad)

    return tree_map(move, value)


def compare(name: str) -> Outcome:
    """Makes all wrong calls of an op: those for the CPU on both, then those for the device."""
    op, outcome = OPS[name], Outcome()

    def outcome_of(sample: Any) -> Exception | None:
        return raised(lambda: op.op(sample.input, *sample.args, **sample.kwargs))

    expected = []
    for k, each in enumerate(op.error_inputs("cpu")):
        s = each.sample_input
        x, args, kwargs = moved((s.input, s.args, s.kwargs))
        wanted, got = outcome_of(s), outcome_of(SampleInput(x, args=args, kwargs=kwargs))
        expected.append(wanted)
        outcome.ran += 1
        if (wanted is None) != (got is None) or type(wanted) is not type(got) and name not in SKIPPED:
            outcome.failures.append(f"{name}, wrong call {k}: the CPU {_told(wanted)}; the device {_told(got)}")
    mine = [] if name in SKIPPED else list(op.error_inputs("hpu"))
    for k, each in enumerate(mine):
        got = outcome_of(each.sample_input)
        outcome.ran += 1
        taken = len(mine) == len(expected) and expected[k] is None  # by the CPU as well
        if got is None and _of_two_devices(each.sample_input):
            outcome.failures += [
                f"{name}, wrong call {k} for the device: {why}" for why in _unlike(op, each.sample_input)
            ]
        elif not taken and not isinstance(got, each.error_type):
            outcome.failures.append(f"{name}, wrong call {k} for the device: it {_told(got)}, not {each.error_regex!r}")
    return outcome


def _of_two_devices(sample: Any) -> bool:
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return len({t.device.type for t in leaves if isinstance(t, torch.Tensor)}) > 1


def _unlike(op: Any, sample: Any) -> list[str]:
    """How the results of a call differ from those of the same one on the CPU."""
    found = op.op(sample.input, *sample.args, **sample.kwargs)
    x, args, kwargs = tree_map(
        lambda t: t.cpu() if isinstance(t, torch.Tensor) else t, (sample.input, sample.args, sample.kwargs)
    )
    wanted = op.op(x, *args, **kwargs)
    try:
        torch.testing.assert_close(found.cpu(), wanted)
    except AssertionError as why:
        return [str(why)]
    return []


def _told(raised: Exception | None) -> str:
    return "accepts it" if raised is None else f"raises {type(raised).__name__}: {str(raised)[:150]!r}"
