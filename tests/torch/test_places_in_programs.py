"""What stands at a place that is a number at run time: read by an op, written by one, and put together with others."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

Op = Callable[[Any, Any, Any, Any], Any]


def _index(x: Any, *places: int) -> Any:
    return torch.tensor(places, device=x.device)


READ: dict[str, Callable[..., Any]] = {
    "product": lambda x, w, b, o: x[o : o + 4] @ w,
    "product from the right": lambda x, w, b, o: w @ x[o : o + 4].t(),
    "product of two": lambda x, w, b, o: x[o : o + 4] @ b[o : o + 4].t(),
    "added to a product": lambda x, w, b, o: x[:4] @ w + b[o : o + 4],
    "columns added to a product": lambda x, w, b, o: x @ w[:, :4] + b[:, o % 4 : o % 4 + 4],
    "reductions": lambda x, w, b, o: x[o : o + 4].sum(0) + x[o:].max(),
    "places": lambda x, w, b, o: x[o : o + 4].argmax(1),
    "rows behind others": lambda x, w, b, o: torch.cat([b[:o], x[:4] @ w]),
    "rows between others": lambda x, w, b, o: torch.cat([b[:o], x[:4] @ w, b[o:]]) * 2,
    "columns behind others": lambda x, w, b, o: torch.cat([b[:, : o % 8], x @ w], 1),
    "products behind each other": lambda x, w, b, o: torch.cat([b[: o + 1] @ w, x[:4] @ w]),
}
WRITTEN: dict[str, Callable[..., Any]] = {
    "product": lambda x, w, b, o: b[o : o + 4].copy_(x[:4] @ w),
    "product and more": lambda x, w, b, o: b[o : o + 4].copy_(torch.relu(x[:4] @ w + w[0])),
    "added product": lambda x, w, b, o: b[o : o + 4].add_(x[:4] @ w),
    "columns": lambda x, w, b, o: b[:, o % 5 : o % 5 + 3].copy_(x @ w[:, :3]),
    "row": lambda x, w, b, o: b[o].copy_(x[0] @ w),
    "part of a column": lambda x, w, b, o: b[:, 0][o : o + 4].copy_(x[:4] @ w[0]),
    "sum": lambda x, w, b, o: b[o : o + 4].copy_(x.view(4, 4, 8).sum(1)),
    "softmax": lambda x, w, b, o: b[o : o + 4].copy_(F.softmax(x[:4], 1)),
    "norm": lambda x, w, b, o: b[o : o + 4].copy_(F.layer_norm(x[:4], (8,))),
    "running sum": lambda x, w, b, o: b[o : o + 4].copy_(x[:4].cumsum(0)),
    "order": lambda x, w, b, o: b[o : o + 4].copy_(x[:4].sort(0)[0]),
    "rows by index": lambda x, w, b, o: b[o : o + 4].copy_(x[_index(x, 3, 1, 0, 2)]),
    "added by index": lambda x, w, b, o: b[o : o + 4].index_add_(0, _index(x, 3, 1, 1), x[:3]),
    "convolution": lambda x, w, b, o: b[o : o + 4].copy_(
        F.conv2d(x.view(1, 1, 16, 8)[:, :, :4], w.view(1, 1, 8, 8)[:, :, :3, :3], padding=1)[0, 0]
    ),
    "pooling": lambda x, w, b, o: b[o : o + 4, :4].copy_(F.max_pool2d(x.view(1, 1, 16, 8)[:, :, :8], 2)[0, 0]),
    "batch of products": lambda x, w, b, o: b.view(2, 8, 8)[:, o % 5 : o % 5 + 3].copy_(x.view(2, 8, 8)[:, :3] @ w),
    "twice": lambda x, w, b, o: (b[o : o + 4].mul_(2), b[o + 1 : o + 3].add_((x @ w)[:2])),
    "side by side": lambda x, w, b, o: (b[o : o + 2].copy_(x[:2] @ w), b[o + 2 : o + 4].copy_(x[2:4] @ w)),
}


def _check(name: str, op: Op, written: bool) -> None:
    torch.manual_seed(0)
    given = [torch.randn(16, 8), torch.randn(8, 8), torch.randn(16, 8)]
    there = [t.to("hpu") for t in given]
    for place in (4, 2, 8, 1, 0, 12, 3):
        for made_before in (False, True):  # in the same program, or in memory
            seen = []
            for tensors in (given, there):
                copies = [t * 1 for t in tensors]
                if not made_before:
                    torch.hpu.synchronize()
                result = op(*copies, place)
                seen.append((copies[2] if written else result).cpu())
            torch.testing.assert_close(
                seen[1], seen[0], rtol=1e-4, atol=1e-4, msg=lambda m, place=place: f"{name}, {place}: {m}"
            )


@pytest.mark.rest
@on_device(*READ)
def test_what_is_read(name: str) -> None:
    _check(name, READ[name], False)


@pytest.mark.rest
@on_device(*WRITTEN)
def test_what_is_written(name: str) -> None:
    _check(name, WRITTEN[name], True)


@on_device(modes=("lazy",))
def test_many_small_parts_are_written_and_read_in_one_program() -> None:
    random.seed(1)
    here, there = (torch.arange(2400.0, device=d).view(8, 20, 15) * 1 for d in ("cpu", "hpu"))
    src = torch.randn(8, 20, 15)
    other = src.to("hpu")
    for k in range(260):
        i, j, n = random.randrange(8), random.randrange(18), random.randrange(12)
        for x, y in ((here, src), (there, other)):
            if k % 5 == 0:
                x[i, j] = y[i, j]
            elif k % 5 == 1:
                x[i, j, n] += y[i, j, n]
            elif k % 5 == 2:
                x[i, j : j + 2, n : n + 3] = x[i, j, n]
            elif k % 5 == 3:
                x[i, j, n] = k
            else:
                x.view(-1)[n : n + 20 : 3] *= 2
    torch.testing.assert_close(there.cpu(), here)
