"""Numbers of Python beside tensors: the type of what comes out, complex numbers, whole random numbers of each type,
negative slopes, PyTorch's default type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.effort import some
from tests.torch.child import HAS_TORCH, on_device
from tests.torch.compiling import compiled

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

    TENSORS = {
        "int64": torch.tensor([3, -2]),
        "int32": torch.tensor([3, -2], dtype=torch.int32),
        "bool": torch.tensor([True, False]),
        "float32": torch.tensor([3.0, -2.0]),
        "float16": torch.tensor([3.0, 2.0], dtype=torch.float16),
        "bfloat16": torch.tensor([3.0, 2.0], dtype=torch.bfloat16),
        "float64": torch.tensor([3.0, 2.0], dtype=torch.float64),
    }
NUMBERS = {"float": 2.25, "int": 2, "bool": True, "complex": complex(1, 0)}
NEW = "add sub mul div floor_divide remainder fmod pow eq lt ne bitwise_and logical_and clamp_min copysign rsub fmax"
IN_PLACE = "add_ sub_ mul_ div_ floor_divide_ remainder_ pow_ eq_ bitwise_and_ bitwise_or_ clamp_ fill_ masked_fill_"


def _calls() -> Iterator[tuple[str, Callable[[str], Any]]]:
    """By name: functions of a device."""
    for of, x in TENSORS.items():
        for kind, number in NUMBERS.items():
            for name in NEW.split():
                for rank in (0, 1):

                    def new(d: str, x: Any = x, name: str = name, number: Any = number, rank: int = rank) -> Any:
                        there = x.clone().to(d)
                        return getattr(torch, name)(there if rank else there[0], number)

                    yield f"{name} {of} of rank {rank}, {kind}", new
            for name in IN_PLACE.split():

                def written(d: str, x: Any = x, name: str = name, number: Any = number) -> Any:
                    there = x.clone().to(d)
                    if name == "masked_fill_":
                        return there.masked_fill_(torch.tensor([True, False]).to(d), number)
                    return getattr(there, name)(number)

                yield f"{name} {of}, {kind}", written


def _seen(call: Callable[[str], Any], device: str) -> Any:
    try:
        made = call(device)
    except Exception as why:
        return type(why), str(why)
    return made.dtype, made.shape, made.tolist()


@pytest.mark.part
@on_device()
def test_numbers_beside_tensors() -> None:
    for name, call in some(list(_calls()), 5):
        want, got = _seen(call, "cpu"), _seen(call, "hpu")
        if "bfloat16" in name or name.startswith("pow"):  # other last digits
            want, got = want[:2], got[:2]
        assert repr(got) == repr(want), f"{name}: {got}, not {want}"


@on_device()
def test_the_default_type_counts_when_an_op_is_called() -> None:
    whole = torch.tensor([1, 2])
    ways: list[Callable[[Any], Any]] = [
        lambda x: x / 2,
        lambda x: x + 0.5,
        lambda x: x.sqrt(),
        lambda x: torch.true_divide(x, x),
        lambda x: torch.full((2,), 1.5, device=x.device),
        lambda x: torch.arange(0, 1, 0.5, device=x.device),
        lambda x: torch.rand(2, device=x.device) * 0,
        lambda x: torch.zeros(2, device=x.device) + x,
    ]
    try:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            torch.set_default_dtype(dtype)
            for way in ways:
                want, got = way(whole), way(whole.to("hpu"))
                assert got.dtype is want.dtype is dtype
                torch.testing.assert_close(got.cpu(), want)
    finally:
        torch.set_default_dtype(torch.float32)


RANGES: list[tuple[str, int, int | None]] = [
    ("float32", -(2**24), None), ("float32", 0, None), ("float32", 2**24 - 3, None), ("float32", 0, 2**30 + 1),
    ("float32", 2**30 + 7, 2**30 + 999), ("bfloat16", -256, None), ("bfloat16", 250, 1003), ("float16", 0, None),
    ("int32", 0, None), ("int32", -5, None), ("int64", -7, None), ("int64", 2**62, None), ("uint8", 250, None),
    ("int8", -128, None), ("int16", 0, 2**15), ("bool", 0, None), ("bool", 0, 2),
]  # fmt: skip


@on_device()
def test_whole_random_numbers_are_in_their_range() -> None:
    for kind, first, last in RANGES:
        dtype = getattr(torch, kind)
        for device in ("cpu", "hpu"):
            x = torch.empty(5000, dtype=dtype, device=device).random_(first, last).cpu().double()
            if last is not None:
                high = last - 1
            elif dtype.is_floating_point:
                high = round(2 / torch.finfo(dtype).eps)
            else:
                high = 1 if dtype is torch.bool else torch.iinfo(dtype).max
            assert first <= x.min() and x.max() <= high, (kind, first, last, device, x.min(), x.max())
            middle = (first + high) / 2
            assert abs(x.mean() - middle) <= max((high - first) * 0.03, 0.1), (kind, first, last, device)
    for bad in ((5, 5), (2**24 + 2, None)):
        for device in ("cpu", "hpu"):
            try:
                torch.empty(2, device=device).random_(*bad)
            except RuntimeError as why:
                assert "random_ expects 'from'" in str(why)
            else:
                raise AssertionError(f"{device} draws from {bad}")


@on_device()
def test_negative_slopes_in_place_have_no_gradient() -> None:
    ways: list[Callable[[Any, float], Any]] = [
        lambda x, n: F.leaky_relu_(x, n),
        lambda x, n: F.elu_(x, n),
        lambda x, n: F.celu_(x, n),
        lambda x, n: torch.nn.LeakyReLU(n, inplace=True)(x),
        lambda x, n: torch.nn.ELU(n, inplace=True)(x),
    ]
    for k, way in enumerate(ways):
        for number in (0.5, -0.5, 0.25, -1.5):
            seen = []
            for device in ("cpu", "hpu"):
                x = torch.tensor([1.0, -1.0], device=device, requires_grad=True)
                try:
                    way(x * 2, number).sum().backward()
                except RuntimeError as why:
                    seen.append(str(why))
                else:
                    assert x.grad is not None
                    seen.append([round(g, 5) for g in x.grad.tolist()])
            assert seen[0] == seen[1], (k, number, seen)


@on_device()
def test_attention_in_float16_does_not_overflow() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 8, 64) * size for size in (60, 60, 1))
    for given in ({}, {"is_causal": True}, {"scale": 1.0}):
        tensors = [t.half() for t in (q, k, v)]
        want = F.scaled_dot_product_attention(*tensors, **given)
        assert not want.isnan().any()
        got = F.scaled_dot_product_attention(*(t.to("hpu") for t in tensors), **given)
        torch.testing.assert_close(got.cpu(), want, rtol=2e-3, atol=2e-3)


@on_device(modes=("eager",))
def test_complex_numbers_in_compiled_graphs() -> None:
    x = torch.tensor([1.0, 2.0])
    run = compiled(lambda x: (x == complex(1, 0)) | (x == complex(2, 1)))
    assert run(x.to("hpu")).tolist() == [True, False]


@on_device()
def test_complex_numbers_of_halves_warn_as_on_the_cpu() -> None:
    torch.set_warn_always(True)
    try:
        for make in (torch.empty, torch.zeros, torch.randn):
            with pytest.warns(UserWarning, match="ComplexHalf support is experimental"):
                make(3, dtype=torch.chalf, device="hpu")
    finally:
        torch.set_warn_always(False)
