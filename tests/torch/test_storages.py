"""Storages of the device: bytes, slices, sizes, their older names; and memory that is filled where it is made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch


def _set(storage: Any, key: Any, value: int) -> list[int]:
    storage[key] = value
    return list(storage)


def _lazily(x: torch.Tensor) -> list[Any]:
    twin = torch._lazy_clone(x)
    twin += 1
    return [twin.cpu(), x.cpu()]


def _freed(x: torch.Tensor) -> list[int]:
    storage = (x + 1).untyped_storage()
    before = storage.nbytes()
    storage.resize_(0)
    return [before, storage.nbytes(), storage.size(), len(storage)]


CASES: dict[str, Callable[[torch.Tensor], Any]] = {
    "a byte": lambda x: x.untyped_storage()[7],
    "bytes": lambda x: list(x.untyped_storage()[4:12]),
    "bytes of bytes": lambda x: list(x.untyped_storage()[4:12][2:4]),
    "their number": lambda x: x.untyped_storage()[1:3].nbytes(),
    "the first ones": lambda x: x.untyped_storage()[:8].tolist(),
    "set": lambda x: _set(x.clone().untyped_storage(), 4, 1),
    "set, several": lambda x: _set(x.clone().untyped_storage(), slice(4, 8), 0),
    "set in a slice": lambda x: _set(x.clone().untyped_storage()[4:12], slice(0, 4), 7),
    "elements": lambda x: [x.storage()[1], x.storage()[-1]],
    "a tensor of a slice": lambda x: (
        torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage()[8:24]) * 2 + 1
    ).tolist(),
    "freed": _freed,
    "lazy clone": _lazily,
}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


@on_device()
def test_bytes_slices_and_sizes() -> None:
    warnings.simplefilter("ignore")
    x = torch.arange(12.0).view(3, 4)
    for name, case in CASES.items():
        expected, got = case(x), case(x.to("hpu"))
        assert _same(expected, got), f"{name}: {got} for {expected}"


@on_device()
def test_a_slice_sees_what_its_storage_gets() -> None:
    x = torch.zeros(8).to("hpu")
    part = torch.empty(0, device="hpu").set_(x.untyped_storage()[8:16])
    x += 1
    assert part.eq(1).all()
    part.fill_(5)
    assert x.tolist() == [1, 1, 5, 5, 1, 1, 1, 1]


@on_device()
def test_older_names() -> None:
    warnings.simplefilter("ignore")
    for dtype, name in torch.storage._dtype_to_storage_type_map().items():
        if name.startswith("Q"):
            continue
        x = torch.zeros(3, dtype=dtype, device="hpu")
        kind = getattr(torch.hpu, name)
        assert x.storage_type() is kind and kind.dtype is dtype
        assert isinstance(x.storage(), kind) and not isinstance(x.storage(), getattr(torch, name))
        assert x.storage().type() == f"torch.hpu.{name}"


@on_device()
def test_new_memory_is_filled_in_deterministic_mode() -> None:
    kinds = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool,
             torch.complex64)  # fmt: skip
    made: dict[str, Callable[[str, torch.dtype], torch.Tensor]] = {
        "empty": lambda d, t: torch.empty(5, dtype=t, device=d),
        "empty_strided": lambda d, t: torch.empty_strided((2, 2), (1, 2), dtype=t, device=d),
        "empty_like": lambda d, t: torch.empty_like(torch.zeros(3, dtype=t, device=d)),
        "new_empty": lambda d, t: torch.zeros(3, dtype=t, device=d).new_empty(2, 2),
        "permuted": lambda d, t: torch.empty_permuted((2, 3), (1, 0), dtype=t, device=d),
        "channels last": lambda d, t: torch.empty(1, 2, 2, 2, memory_format=torch.channels_last, dtype=t, device=d),
        "resize_": lambda d, t: torch.zeros(2, dtype=t, device=d).resize_(5),
    }
    torch.use_deterministic_algorithms(True)
    try:
        for name, make in made.items():
            for kind in kinds:
                expected, got = make("cpu", kind), make("hpu", kind).cpu()
                torch.testing.assert_close(got, expected, equal_nan=True, msg=f"{name} {kind}: {got} for {expected}")
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert not torch.empty(1000, device="hpu").isnan().all()
        assert torch.histc(torch.arange(4.0, device="hpu"), 4).eq(1).all()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = True
