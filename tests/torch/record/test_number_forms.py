"""A number in the place of a tensor: first, second, with `out`, in place; against PyTorch's CPU.

The ops are found in PyTorch's schemas: all of which one overload has a number where another has a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

_NUMBERS = 3, 2.5, True, -2
_LEFT_OUT = "_foreach", "fill"
"""Beginnings of names of ops that are no function of two operands."""


def _ops() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of two operands, one of which may be a number, by name."""
    for name in sorted({n.removeprefix("aten::").partition(".")[0] for n in torch._C._dispatch_get_all_op_names()}):
        if name.startswith(_LEFT_OUT) or name.endswith("_"):
            continue
        packet = getattr(torch.ops.aten, name, None)
        if packet is None or not hasattr(packet, "overloads"):
            continue
        kinds: set[tuple[str, ...]] = set()
        for kind in packet.overloads():
            arguments = getattr(packet, kind)._schema.arguments
            needed = [str(a.type) for a in arguments if not a.has_default_value() and not a.is_out]
            kinds.add(tuple(needed))
        if ("Tensor", "Tensor") in kinds and kinds & {("number", "Tensor"), ("Tensor", "number")}:
            yield name, packet


def _result(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError) as why:
        return why


def _operands() -> dict[str, torch.Tensor]:
    floats = torch.tensor([[1.5, 2.0, 3.0], [4.0, 0.5, 7.0]])
    whole = torch.tensor([[1, 2, 3], [4, 5, 7]])
    return {
        "float32": floats, "bfloat16": floats.bfloat16(), "float16": floats.half(), "float64": floats.double(),
        "int64": whole, "int16": whole.short(), "uint8": whole.byte(), "bool": whole > 3, "none": floats[0, 0],
        "half": floats[0, 0].half(), "short": whole[0, 0].short(),
    }  # fmt: skip


def _same(name: str, expected: Any, got: Any) -> None:
    if isinstance(expected, Exception):
        if "ZeroDivision" in str(expected) or "INTERNAL ASSERT" in str(expected):
            return  # a program cannot stop in the middle; a mistake of PyTorch's
        assert isinstance(got, type(expected)), f"{name}: {got!r} for {expected!r}"
        return
    assert not isinstance(got, Exception), f"{name}: {got!r} for {expected}"
    if not isinstance(expected, torch.Tensor):
        assert expected == got, name
        return
    assert got.device.type == "hpu" and got.dtype is expected.dtype, f"{name}: {got.dtype} for {expected.dtype}"
    torch.testing.assert_close(got.cpu(), expected, equal_nan=True, msg=lambda text: f"{name}: {text}")


def _calls(packet: Callable[..., Any], t: torch.Tensor, number: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "first", lambda: packet(number, t)
    yield "second", lambda: packet(t, number)
    yield "first, as a tensor of the host", lambda: packet(torch.tensor(number), t)
    yield "second, as a tensor of the host", lambda: packet(t, torch.tensor(number))


def _into(packet: Callable[..., Any], args: list[Any], out: torch.Tensor) -> torch.Tensor:
    packet(*args, out=out)
    return out


def _compare(kinds: list[str]) -> int:
    compared = 0
    for name, packet in _ops():
        for kind in kinds:
            of_cpu = _operands()[kind]
            for number in _NUMBERS:
                t = of_cpu.to("hpu")
                pairs = zip(_calls(packet, of_cpu, number), _calls(packet, t, number), strict=True)
                for (where, expected), (_, got) in pairs:
                    right = _result(expected)
                    _same(f"{name}, {number} {where}, {kind}", right, _result(got))
                    compared += not isinstance(right, Exception)
                for order in ([number, None], [None, number]):
                    right = _result(lambda: packet(*[of_cpu if a is None else a for a in order]))  # noqa: B023
                    if not isinstance(right, torch.Tensor):
                        continue
                    for out in (torch.zeros_like(right), torch.empty(0, dtype=right.dtype)):
                        given = [of_cpu if a is None else a for a in order], [t if a is None else a for a in order]
                        expected_out = _result(lambda: _into(packet, given[0], out.clone()))  # noqa: B023
                        got_out = _result(lambda: _into(packet, given[1], out.to("hpu")))  # noqa: B023
                        _same(f"{name}, out, {order}, {kind}", expected_out, got_out)
                        compared += 1
    return compared


@on_device("float32", "int64")
def test_a_number_in_the_place_of_a_tensor(kind: str) -> None:
    assert len(list(_ops())) > 40
    assert _compare([kind]) > 500


@pytest.mark.rest
@on_device("bfloat16", "float16", "float64", "int16", "uint8", "bool", "none", "half", "short")
def test_a_number_in_the_place_of_a_tensor_of_other_types(kind: str) -> None:
    assert _compare([kind]) > 300
