"""What a call comes to is found out once, and not anew for each length: results lie as the CPU's, wrong calls raise."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

    from habana_tf.torch.record import cpu_check, meta

UNARY = ("relu", "neg", "sigmoid", "gelu", "isnan", "logical_not", "abs", "_safe_softmax")
BINARY = ("add.Tensor", "gt.Tensor", "div.Tensor", "pow.Tensor_Tensor", "where.self")
NUMBERS = ("mul.Scalar", "pow.Tensor_Scalar", "eq.Scalar", "div.Scalar")
RESIZED = ("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_bicubic2d")


def _overload(name: str) -> Any:
    packet, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), kind or "default")


def _layouts() -> list[Any]:
    x = torch.ones(2, 3, 4, 5)
    return [
        x, x.to(memory_format=torch.channels_last), torch.ones(2, 1, 4, 5).to(memory_format=torch.channels_last),
        x.transpose(2, 3), x.transpose(0, 1), torch.ones(2, 3, 8, 5)[:, :, ::2], x[:, :1].expand(2, 3, 4, 5),
        torch.ones(1, 7).t(), torch.ones(2, 1, 5).transpose(0, 1), torch.ones(4, 1, 1, 6).permute(3, 0, 2, 1),
        torch.ones(7), torch.ones(()),
    ]  # fmt: skip


def _calls(name: str) -> list[tuple[Any, ...]]:
    if name in RESIZED:
        more = () if "nearest" in name else (False,)
        return [(x, [7, 9], *more) for x in _layouts() if x.dim() == 4]
    if name in NUMBERS:
        return [(x.to(t), n) for x in _layouts() for t in (torch.float32, torch.int64) for n in (2, 2.5, True)]
    if name in BINARY:
        pairs = [(x, y) for x in _layouts() for y in (x, x.long(), torch.tensor(2), torch.ones(1), torch.ones(5))]
        pairs = [(x, y) for x, y in pairs if x.dim() == 0 or y.dim() < 1 or x.shape[-1] == y.shape[-1] or len(y) == 1]
        return [(x > 0, x, y) if name == "where.self" else (x, y) for x, y in pairs]
    return [(x, -1) if name == "_safe_softmax" else (x,) for x in _layouts()]


@on_device(*UNARY, *BINARY, *NUMBERS, *RESIZED, modes=("eager",))
def test_shapes_strides_and_types_are_the_cpus(name: str) -> None:
    """Also where no meta kernel was asked, as of what was called before on another layout."""
    overload = _overload(name)
    asked: list[Any] = []
    for call in [*_calls(name), *reversed(_calls(name))]:
        want, got = overload(*call), meta.results(overload, call, {})
        stock = overload(*meta.to_meta(call))  # differs from the CPU's along axes of one element
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert got.stride() in (want.stride(), stock.stride()), (call[0].shape, call[0].stride())
        asked.append(got)
    assert len(asked) > 10


@on_device()
def test_a_cache_that_grows_asks_the_cpu_no_more() -> None:
    asked: list[Any] = []
    known = cpu_check._Call.refusal

    def refusal(self: Any, lengths: Any) -> Any:
        asked.append(self.overload)
        return known(self, lengths)

    def step(cache: Any) -> Any:
        return torch.cat([cache, cache.new_ones(2, 1, 16)], 1)

    cache, counts = torch.zeros(2, 9, 16, device="hpu"), []
    with patch.object(cpu_check._Call, "refusal", refusal):
        for _ in range(12):
            cache = step(cache)
            F.scaled_dot_product_attention(cache[:, -1:], cache, cache).cpu()
            counts.append(len(asked))
    assert counts[-1] == counts[-4], counts


@on_device()
def test_a_wrong_call_raises_after_right_ones_of_other_lengths() -> None:
    def tried(device: str, n: int, m: int, k: int) -> list[str]:
        x, places = torch.zeros(n, 20, device=device), torch.zeros(m, dtype=torch.int64, device=device)
        calls = [
            lambda: x.index_add(0, places, torch.ones(k, 20, device=device)),
            lambda: torch.cat([x, torch.ones(m, k, device=device)]),
            lambda: x.index_copy(0, places, torch.ones(m, k, device=device)),
            lambda: F.linear(x, torch.ones(m, k, device=device)),
            lambda: F.nll_loss(x, torch.zeros(k, dtype=torch.int64, device=device)),
            lambda: x.scatter(0, torch.zeros(m, k, dtype=torch.int64, device=device), torch.ones(m, 20, device=device)),
        ]
        found = []
        for call in calls:
            try:
                call()
                found.append("")
            except (RuntimeError, ValueError, IndexError) as why:
                found.append(type(why).__name__)
        return found

    for device in ("cpu", "hpu"):  # elements that share memory, after some that do not
        torch.zeros(12, 12, device=device).t().add_(1)
        torch.zeros(12, 24, device=device)[:, ::2].add_(1)
        with pytest.raises(RuntimeError, match="more than one element"):
            torch.zeros(12, 1, device=device).expand(12, 12).add_(1)
    for sizes in ((30, 12, 12), (40, 15, 15), (50, 11, 20), (60, 13, 20), (70, 14, 70), (40, 15, 16), (50, 20, 19)):
        assert tried("hpu", *sizes) == tried("cpu", *sizes), sizes


@on_device(modes=("lazy",))
def test_parts_of_one_large_tensor_are_joined_without_memory_of_their_own() -> None:
    from habana_tf.torch.dry_run.recorder import recorded

    with recorded():
        parts = torch.empty(1 << 42, device="hpu").chunk(2)
        joined = torch.cat(parts[::-1])
    assert joined.shape == (1 << 42,)
    x = torch.ones(8, device="hpu")
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])
