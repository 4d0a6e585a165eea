"""Storages of the device: bytes, slices, sizes, their older names; and memory that is filled where it is made."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

    from habana_tf.resolver import placements
    from habana_tf.torch.loader import load


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


def _ema(x: torch.Tensor) -> list[Any]:
    model = torch.nn.Linear(4, 2).to(x.device)
    with torch.no_grad():
        model.weight.copy_(x[:2]), model.bias.copy_(x[2, :2])
        average = copy.deepcopy(model)
        for _ in range(2):
            for p, q in zip(model.parameters(), average.parameters(), strict=True):
                p.sub_(0.5)
                q.mul_(0.9).add_(p, alpha=0.1)
    return [*model.parameters(), *average.parameters()]


def _again(x: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    made: torch.Tensor = torch.load(file)
    return made


def _bits(x: torch.Tensor) -> list[Any]:
    y = x + 1
    bits = y.view(torch.int32)
    bits += 1 << 20
    return [y * 2, bits, y.view(torch.int16) & 7, x.view(torch.int32).abs_(), x]


def _in_part(x: torch.Tensor) -> list[Any]:
    x = x.clone()
    part = torch.empty(0, device=x.device).set_(x.untyped_storage()[8:24])
    x += 1
    part.mul_(3)
    return [x, part + part, part[1:] - x[0, :3], part.sum(), torch.cat([part, x[1]])]


COPIED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a copy is written": lambda x: copy.deepcopy(x).mul_(0.5),
    "both are written": lambda x: [y := copy.deepcopy(x), x.add_(1), y.add_(2)],
    "of what is computed": lambda x: [y := x * 2, copy.deepcopy(y.detach()).sub_(1), y],
    "of a view": lambda x: copy.deepcopy(x.t()[1:]).mul_(2),
    "of a shared storage": lambda x: [z.mul_(2) for z in copy.deepcopy([x, x[1:], x.view(-1)[3:5]])],
    "of a copy": lambda x: copy.deepcopy(copy.deepcopy(x).add_(1)).add_(1),
    "an average of parameters": _ema,
    "a storage": lambda x: torch.empty(0, device=x.device).set_(x.untyped_storage().clone(), 0, (4, 3), (1, 4)).add_(1),
    "a typed storage": lambda x: torch.empty(0, device=x.device).set_(x.storage().clone()).add_(1),
    "a storage that is copied to": lambda x: [y := x + 1, y.untyped_storage().copy_(x.untyped_storage()), y.mul_(2)],
    "bytes of a storage": lambda x: (
        torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage().clone()).bitwise_xor_(1)
    ),
    "set": lambda x: [y := torch.empty(0, device=x.device).set_(x + 1), y.mul_(2)],
    "saved and loaded": lambda x: _again(x * 2).add_(1),
    "pickled": lambda x: pickle.loads(pickle.dumps(x + 1)).mul_(2),
    "other types": _bits,
    "part of a storage": _in_part,
    "of whole numbers": lambda x: copy.deepcopy(x.to(torch.int64)).add_(1),
    "of bfloat16": lambda x: copy.deepcopy(x.bfloat16()).add_(1),
    "of booleans": lambda x: copy.deepcopy(x > 2).logical_not_(),
}


@on_device()
def test_what_is_copied_is_written_on_the_card() -> None:
    warnings.simplefilter("ignore")
    placements.reset()
    for name, case in COPIED.items():
        expected, got = (case(torch.arange(12.0).view(3, 4).to(d)) for d in ("cpu", "hpu"))
        for one, other in zip(*((x if isinstance(x, list) else [x]) for x in (expected, got)), strict=True):
            if isinstance(one, torch.Tensor):
                assert other.device.type == "hpu" and torch.equal(one, other.cpu()), f"{name}: {other} for {one}"
        assert not placements.placements().cpu, f"{name}: {placements.placements().cpu}"


@on_device(modes=("lazy",))
def test_a_copy_and_its_first_use_are_one_program() -> None:
    x = torch.ones(5).to("hpu")
    before = load().programs
    copy.deepcopy(x).mul_(2).tolist()
    assert load().programs == before + 1


@on_device(modes=("eager",))
def test_a_compiled_function_of_slices_of_storages_reads_each_where_it_is() -> None:
    x = torch.arange(12.0).to("hpu")
    doubled = torch.compile(lambda part: part * 2, backend="hpu_backend")
    for first in (2, 4, 2, 6):
        part = torch.empty(0, device="hpu").set_(x.untyped_storage()[4 * first : 4 * first + 8])
        assert doubled(part).tolist() == [2 * first, 2 * first + 2]
        assert doubled(x[:2]).tolist() == [0, 2]
